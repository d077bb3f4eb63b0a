"""Graphics cards to plan engines for: presets from cards.toml, or the GPU of this machine."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from trt_tts.errors import UsageError
from trt_tts.gpu_reading import GpuReading, read_gpu

MIB = 1 << 20
AUTO = "auto"
DEFAULT = "gtx1650"
"""What `auto` plans for where no GPU answers."""
_GENERIC = "generic_"
_SIZE_TOLERANCE = 0.08
"""Drivers report up to 6 % less than the size on the box (3.82 GiB of 4); real sizes are 16 % apart or more."""


@dataclass(frozen=True)
class Card:
    """One row of cards.toml. `budget` is negative where other programs hold the card.

    Raises:
        ValueError: a field is empty, malformed or out of range.
    """

    key: str
    name: str
    memory_mib: float
    """Total, as the driver reports it."""
    desktop_mib: float
    """In use before the program starts."""
    context_mib: float
    """CUDA context and TensorRT libraries."""
    bandwidth_gbs: float
    """Of the memory, 1e9 bytes/s."""
    compute_capability: str
    tensor_cores: bool
    source: str

    def __post_init__(self) -> None:
        for field in ("key", "name", "source"):
            if not getattr(self, field).strip():
                raise ValueError(f"card {self.key!r}: {field} is empty")
        for field, least in (("memory_mib", 1), ("desktop_mib", 0), ("context_mib", 0), ("bandwidth_gbs", 1)):
            if not least <= getattr(self, field) < math.inf:
                raise ValueError(f"card {self.key!r}: {field} is {getattr(self, field)}; allowed: {least} and more")
        if not re.fullmatch(r"\d+\.\d+", self.compute_capability):
            raise ValueError(f"card {self.key!r}: compute_capability is {self.compute_capability!r}, not like 7.5")

    @property
    def memory(self) -> int:
        """Bytes."""
        return round(self.memory_mib * MIB)

    @property
    def reserved(self) -> int:
        """Bytes that are not the engines' to use: desktop and context."""
        return round((self.desktop_mib + self.context_mib) * MIB)

    @property
    def budget(self) -> int:
        """Bytes left for engines, weights and buffers."""
        return self.memory - self.reserved


@dataclass(frozen=True)
class CardChoice:
    """A card, and why it was taken."""

    card: Card
    reason: str


def load_cards() -> dict[str, Card]:
    """Key -> preset, in the order of cards.toml."""
    data = tomllib.loads(Path(__file__).with_name("cards.toml").read_text("utf-8"))
    return {key: Card(key=key, **fields) for key, fields in data.items()}


def choose_card(name: str, device: int = 0) -> CardChoice:
    """A preset by key ("gtx1650", "GTX 1650"), or with "auto" the card of GPU `device`, as far as the driver knows it.

    Raises:
        UsageError: there is no such preset.
    """
    cards = load_cards()
    wanted = _squash(name)
    if wanted == AUTO:
        return _from_machine(cards, device)
    keys = {_squash(key): key for key in cards}
    if wanted in keys:
        return CardChoice(cards[keys[wanted]], "asked for by name")
    close = [keys[match] for match in difflib.get_close_matches(wanted, keys)]
    hint = f"; did you mean {' or '.join(close)}?" if close else ";"
    raise UsageError(f"there is no card preset {name!r}{hint} presets: {', '.join(cards)}; or {AUTO} for the GPU here")


def _from_machine(cards: dict[str, Card], device: int) -> CardChoice:
    gpu = read_gpu(device)
    if gpu is None:
        which = f"NVIDIA GPU {device}" if device else "NVIDIA GPU"
        return CardChoice(cards[DEFAULT], f"no {which} answers here; planning for the GTX 1650")
    memory_mib, used_mib = gpu.memory / MIB, gpu.used / MIB
    found = f"GPU {device}: {gpu.name}, {used_mib:.0f} of {memory_mib:.0f} MiB in use, driver {gpu.driver}"
    card = _preset_of(gpu, cards)
    if card is None:
        card = replace(_generic_of(gpu, cards), name=gpu.name, compute_capability=gpu.compute_capability)
        found += f"; no preset for it, bandwidth of {card.key}"
    return CardChoice(replace(card, memory_mib=memory_mib, desktop_mib=max(card.desktop_mib, used_mib)), found)


def _preset_of(gpu: GpuReading, cards: dict[str, Card]) -> Card | None:
    """The preset of this model and size; of several, the nearest in bandwidth, the slowest where that is unknown."""
    size = gpu.memory / MIB
    model = [card for card in cards.values() if _model(card.name) == _model(gpu.name)]
    same = [card for card in model if abs(size / card.memory_mib - 1) < _SIZE_TOLERANCE]
    bandwidth = gpu.bandwidth_gbs or 0.0
    return min(same, key=lambda card: abs(card.bandwidth_gbs - bandwidth), default=None)


def _generic_of(gpu: GpuReading, cards: dict[str, Card]) -> Card:
    """The largest generic card not larger than this GPU, else the smallest."""
    generic = sorted((card for key, card in cards.items() if key.startswith(_GENERIC)), key=lambda card: card.memory)
    fitting = [card for card in generic if gpu.memory > card.memory * (1 - _SIZE_TOLERANCE)]
    return fitting[-1] if fitting else generic[0]


def _squash(name: str) -> str:
    return re.sub(r"[-_\s]|nvidia|geforce|tesla", "", name.lower())


def _model(name: str) -> str:
    """Without maker, brand and memory: NVIDIA GeForce RTX 3050 6GB Laptop GPU -> rtx3050laptopgpu."""
    return _squash(re.sub(r"\b(\d+\s*GB|GDDR\d\w*)\b", "", name, flags=re.IGNORECASE))
