"""Predicts what a set takes on a card, and bounds how fast a step can be, before anything is built.

Weights, caches and I/O follow from the model's sizes. Activations are fitted to what NVIDIA's builder reports
(TensorRT-RTX 1.7 for SM75, published sizes): a fixed workspace, rows of the widest layer, and the slices of one layer's
keys and values that its attention copies. benchmarks/plan_accuracy.py compares them with builds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from trt_tts.errors import CapacityError, UsageError
from trt_tts.gpu.layout import cache_bytes, hidden_bytes, io_bytes
from trt_tts.limits import CAPACITY_STEP, PREFILL_CHUNK, PROMPT_ROOM, capacity_for, speech_of
from trt_tts.manifest import Limits
from trt_tts.model_config import ModelConfig

from .cards import Card
from .checkpoint import Shape, expected_shapes
from .profiles import Profile, profiles_of, spans_of

PRECISIONS = ("fp32", "fp16", "int8")
RESIDENT = ("gpt", "codec")
WORKSPACE = 8_192_000
"""Bytes TensorRT-RTX sets aside for matrix products, whatever the sizes."""
RESERVE = 64_000_000
"""Bytes kept free: allocation granularity, CUDA graphs, the driver's own growth."""
SMALL_CARD = 2_000_000_000
"""Budgets below this get shorter codec windows and prefill chunks."""
_NOTHING_FITS = "Nothing fits: close other programs that use the GPU, or take another --precision or card"
_PER_WIDTH_SQUARED = 3.5
_PER_STEP_WIDE = 12
_PER_STEP_BIN = 9.24


@dataclass(frozen=True)
class Part:
    """One line of the plan."""

    name: str
    bytes: int
    resident: bool = True
    """Counted in the total; the others are loaded at their first use."""


@dataclass(frozen=True)
class StepBound:
    """What memory bandwidth alone allows; a bound, not a measurement."""

    rows: int
    span: int
    bytes: int
    """Read at least once per step: weights, and the keys and values of `span` positions."""
    milliseconds: float
    steps_per_second: float
    """Of each row; real time is 46.9."""


@dataclass(frozen=True)
class MemoryPlan:
    """What a set is predicted to take."""

    card: Card
    precision: str
    limits: Limits
    parts: tuple[Part, ...]
    bounds: tuple[StepBound, ...]

    @property
    def total(self) -> int:
        """Bytes of the card's memory in use while the engine speaks."""
        return sum(part.bytes for part in self.parts if part.resident)

    @property
    def engine(self) -> int:
        """Bytes of the engine itself: weights, caches, activations and I/O."""
        outside = ("desktop", "CUDA context", "reserve")
        return sum(part.bytes for part in self.parts if part.resident and part.name not in outside)

    @property
    def fits(self) -> bool:
        """Whether the card holds it."""
        return self.total <= self.card.memory


@dataclass(frozen=True)
class Fitting:
    """What fits where a plan does not."""

    max_batch: int
    """Largest batch at the capacity asked for; 0 where not even one row fits."""
    max_seconds: float
    """Longest speech at the batch asked for; 0 where none fits."""


def plan_memory(
    config: ModelConfig, card: Card, precision: str, max_batch: int, max_seconds: float | None = None
) -> MemoryPlan:
    """The plan of a set.

    Raises:
        UsageError: unknown precision, or the model's positions do not reach `max_seconds`.
    """
    if precision not in PRECISIONS:
        raise UsageError(f"precision {precision!r} is not built for GPUs; allowed: {', '.join(PRECISIONS)}")
    small = card.budget < SMALL_CARD
    limits = Limits(
        max_batch=max_batch,
        capacity=capacity_for(config, max_seconds),
        prefill_chunk=PREFILL_CHUNK // 2 if small else PREFILL_CHUNK,
        codec_steps=256 if small else 512,
        max_seconds=max_seconds,
    )
    return _plan(config, card, precision, limits)


def _plan(config: ModelConfig, card: Card, precision: str, limits: Limits) -> MemoryPlan:
    parts = (
        Part("desktop", round(card.desktop_mib * (1 << 20))),
        Part("CUDA context", round(card.context_mib * (1 << 20))),
        *(Part(f"{graph} weights", weight_bytes(graph, config, precision)) for graph in RESIDENT),
        Part("KV cache", kv_bytes(config, precision, limits)),
        Part("contexts", 0),  # TensorRT-RTX keeps nothing per context
        Part("hidden states", hidden_bytes(config.gpt, limits)),
        Part("activations", max(shared_activations(config, precision, limits).values())),
        Part("inputs and outputs", io_bytes(config.gpt, limits)),
        Part("reserve", RESERVE),
        *(
            Part(f"{graph} weights", weight_bytes(graph, config, precision), resident=False)
            for graph in ("codec_vq", "text_head", "voice_encoder")
        ),
    )
    return MemoryPlan(card, precision, limits, parts, tuple(_bounds(config, card, precision, limits)))


def what_fits(config: ModelConfig, plan: MemoryPlan) -> Fitting:
    """The largest batch and the longest speech that fit the plan's card, each with the other as asked for."""

    def fits(**limits: int) -> bool:
        return _plan(config, plan.card, plan.precision, replace(plan.limits, **limits)).fits

    batch = next((b for b in range(plan.limits.max_batch, 0, -1) if fits(max_batch=b)), 0)
    capacities = range(plan.limits.capacity, PROMPT_ROOM, -CAPACITY_STEP)
    capacity = next((c for c in capacities if fits(capacity=c)), 0)
    return Fitting(batch, speech_of(capacity))


def require_fit(config: ModelConfig, plan: MemoryPlan) -> None:
    """Check that the card holds the plan.

    Raises:
        CapacityError: it does not; says by how much, and what fits.
    """
    if plan.fits:
        return
    fitting, batch = what_fits(config, plan), plan.limits.max_batch
    offers = []
    if fitting.max_batch:
        offers.append(f"--max-batch {fitting.max_batch} at {speech_of(plan.limits.capacity):.0f} s of speech")
    if fitting.max_seconds >= 1:
        offers.append(f"--max-seconds {int(fitting.max_seconds)} at --max-batch {batch}")
    needed, there, taken = plan.total / 1e6, plan.card.memory / 1e6, plan.card.reserved / 1e6
    raise CapacityError(
        f"{plan.precision} at --max-batch {batch} needs {needed:.0f} MB of the {there:.0f} MB of {plan.card.name}, "
        f"{taken:.0f} MB of it for desktop, other programs and the CUDA context. "
        + (f"What fits: {', or '.join(offers)}" if offers else _NOTHING_FITS)
    )


def weight_bytes(graph: str, config: ModelConfig, precision: str) -> int:
    """Bytes of a graph's weights on the card."""
    wide = 4 if precision == "fp32" else 2
    shapes = expected_shapes(config)
    if graph == "gpt":
        linears = [shape for name, shape in shapes["gpt"].items() if len(shape) == 2]
        scales = 2 * sum(shape[0] for shape in linears)
        stored = _count(linears) + scales if precision == "int8" else wide * _count(linears)
        codes = 2 * config.gpt.num_vq * config.gpt.num_audio_tokens * config.gpt.hidden_size
        norms = 4 * _count([shape for shape in shapes["gpt"].values() if len(shape) == 1])
        return stored + wide * codes + norms
    if graph == "text_head":
        return wide * config.gpt.num_text_tokens * config.gpt.hidden_size
    return wide * _count(_codec_shapes(graph, shapes, config.vocos.feature_extractor.n_fft))


def _codec_shapes(graph: str, shapes: dict[str, dict[str, Shape]], n_fft: int) -> list[Shape]:
    """Weights of the convolutional graphs, with the Fourier basis that no checkpoint holds."""
    part, prefixes = {
        "codec": ("decoder", ("decoder.", "out_conv.")),
        "codec_vq": ("dvae", ("decoder.", "out_conv.", "vq_layer.")),
        "voice_encoder": ("dvae", ("downsample_conv.", "encoder.", "preprocessor_mel.", "vq_layer.")),
    }[graph]
    found = [shape for name, shape in shapes[part].items() if name.startswith(prefixes)]
    if graph != "voice_encoder":
        found += [shape for name, shape in shapes["vocos"].items() if name.startswith(("backbone.", "head.out."))]
    return [*found, (n_fft + 2, n_fft)]


def kv_bytes(config: ModelConfig, precision: str, limits: Limits) -> int:
    """Bytes of the key-value caches of all rows."""
    return cache_bytes(config.gpt, limits, 4 if precision == "fp32" else 2)


def shared_activations(config: ModelConfig, precision: str, limits: Limits) -> dict[str, int]:
    """Bytes of activation memory by "graph/profile"; contexts that never overlap share the largest."""
    found = {}
    for graph in RESIDENT:
        for profile in profiles_of(graph, config, limits):
            found[f"{graph}/{profile.name}"] = activation_bytes(graph, profile, config, precision)
    return found


def activation_bytes(graph: str, profile: Profile, config: ModelConfig, precision: str) -> int:
    """Bytes of activation memory that one profile needs, at its largest shapes."""
    double = 2 if precision == "fp32" else 1
    if graph == "codec":
        return WORKSPACE + double * profile.shapes["hidden"].most[1] * _codec_bytes_per_step(config)
    gpt = config.gpt
    rows, steps, _ = profile.shapes["rows"].most
    span = profile.shapes["span"].most[0]
    wide = double * 4 * gpt.intermediate_size * rows * steps
    copied = double * 2 * gpt.hidden_size * rows * span
    fixed = round(_PER_WIDTH_SQUARED * gpt.hidden_size**2)
    return max(WORKSPACE + fixed + wide, WORKSPACE + copied + wide, 2 * copied + wide, WORKSPACE + 2 * wide)


def _codec_bytes_per_step(config: ModelConfig) -> int:
    """Two mel frames, each as wide as the widest ConvNeXt layer or as the spectrum."""
    widest = max(4 * config.decoder.hidden, config.vocos.backbone.intermediate_dim)
    bins = config.vocos.feature_extractor.n_fft + 2
    return math.ceil(max(_PER_STEP_WIDE * widest, _PER_STEP_BIN * bins))


def _bounds(config: ModelConfig, card: Card, precision: str, limits: Limits) -> Iterator[StepBound]:
    per_position = kv_bytes(config, precision, Limits(1, 1, 1))
    for rows in sorted({1, limits.max_batch}):
        for span in sorted({spans_of(limits.capacity)[0], limits.capacity}):
            moved = weight_bytes("gpt", config, precision) + rows * span * per_position
            seconds = moved / (card.bandwidth_gbs * 1e9)
            yield StepBound(rows, span, moved, 1000 * seconds, 1 / seconds)


def _count(shapes: Sequence[Shape]) -> int:
    return sum(math.prod(shape) for shape in shapes)


def as_json(plan: MemoryPlan) -> dict[str, object]:
    """The plan with its totals, for machines."""
    return {**asdict(plan), "engine": plan.engine, "total": plan.total, "fits": plan.fits}
