"""What an engine-set folder holds, what it was built from and for, and whether it is whole.

manifest.json            this module's `Manifest`
<graph>.onnx, .weights   the graphs
tokenizer.json, voices.json, text_embedding.npy
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from trt_tts.errors import CheckpointError, EngineSetError
from trt_tts.files import new_file, read_json, sha256_of
from trt_tts.model_config import ModelConfig
from trt_tts.plan_info import MemoryLine, PlanInfo, Verification
from trt_tts.quality import Quality

MANIFEST = "manifest.json"
TOKENIZER = "tokenizer.json"
VOICES = "voices.json"
TEXT_EMBEDDING = "text_embedding.npy"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of a graph; dynamic dimensions are names."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class GraphInfo:
    """One graph of the set."""

    files: tuple[str, ...]
    resident: bool
    """Loaded with the engine; the others at their first use."""
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    operators: dict[str, int]
    """How many nodes of each type the graph holds: what was really built, not what was asked for."""
    weight_bytes: dict[str, int]
    """Bytes of constants by type."""
    export_error: float
    """Largest relative difference of the float32 export from torch."""
    plan: PlanInfo | None = None
    """What TensorRT made of it; `files` holds the plan then."""


@dataclass(frozen=True)
class FileInfo:
    """Size and sha256 of one file."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Limits:
    """What the set was built for."""

    max_batch: int
    """Sequences generated at a time."""
    capacity: int
    """Key-value positions per sequence: prompt and generated steps together."""
    prefill_chunk: int
    """Prompt positions per prefill call."""
    codec_steps: int = 512
    """Longest window of the codec on a GPU, in steps."""
    max_seconds: float | None = None
    """What was asked for; None where the capacity is the default."""

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if name != "max_seconds" and (type(value) is not int or value < 1):
                raise ValueError(f"{name} is {value!r}, not a positive whole number")


@dataclass(frozen=True)
class CheckpointInfo:
    """Where the weights came from."""

    name: str
    files: dict[str, str]
    """sha256 of every file that was read."""


@dataclass(frozen=True)
class Target:
    """What the set runs on."""

    runtime: str
    """The runtime that built it, with its version."""
    minimum: str
    """The oldest release of that runtime that runs it."""
    card: str | None = None
    """Preset the set was planned for."""
    compute_capability: str | None = None
    system: str | None = None
    """Operating system and processor."""
    cuda: str | None = None
    driver: str | None = None
    """Of the machine that built it; None where it had no GPU."""


@dataclass(frozen=True)
class Manifest:
    """The record beside the engines."""

    product_version: str
    created: str
    """UTC, ISO 8601."""
    backend: str
    precision: str
    target: Target
    limits: Limits
    checkpoint: CheckpointInfo
    config: ModelConfig
    prompt: str | None
    """Prompt template, where the checkpoint needs another than the published one."""
    alphabet: str | None
    """The characters the voice was trained on, where its tokenizer knows more."""
    graphs: dict[str, GraphInfo]
    files: dict[str, FileInfo]
    memory: tuple[MemoryLine, ...] = ()
    """Device memory, predicted and built; empty for the CPU backend."""
    verification: Verification | None = None
    quality: Quality | None = None
    """What quantization did to the speech, measured by the build; None where nothing was quantized or measured."""
    format_version: int = FORMAT_VERSION

    @property
    def gate_precision(self) -> str:
        """What `quality` is held against: an FP16 set may have INT8 linears by its precision map."""
        plan = self.graphs["gpt"].plan
        return "int8" if plan is not None and plan.int8_share else self.precision

    def save(self, folder: Path) -> None:
        """Write `folder`/manifest.json."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        with new_file(folder / MANIFEST) as file:
            file.write_text(text + "\n", "utf-8", newline="\n")

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read `folder`/manifest.json.

        Raises:
            EngineSetError: there is no set, or the manifest is damaged or of another format version.
        """
        if not folder.is_dir():
            raise EngineSetError(f"no engine set at {folder}: no such folder. Build one: trt-tts build")
        if not (folder / MANIFEST).is_file():
            raise EngineSetError(f"{folder} is no engine set: it has no {MANIFEST}. Build one: trt-tts build")
        data = read_json(folder / MANIFEST, EngineSetError)
        version = data.get("format_version")
        if version != FORMAT_VERSION:
            raise EngineSetError(
                f"{folder / MANIFEST} has format version {version!r}; this program reads {FORMAT_VERSION}. "
                f"Build the set again with this version: trt-tts build"
            )
        try:
            return cls(**{**data, **_nested(data, str(folder / MANIFEST))})
        except (KeyError, TypeError, ValueError, AttributeError, CheckpointError) as error:
            raise EngineSetError(
                f"{folder / MANIFEST} is damaged ({error}). Build the set again: trt-tts build"
            ) from error

    @staticmethod
    def marks(folder: Path) -> bool:
        """Whether `folder` is an engine set, of any version and however damaged."""
        try:
            return "format_version" in read_json(folder / MANIFEST, EngineSetError)
        except EngineSetError:
            return False

    def verify(self, folder: Path) -> None:
        """Compare every file with its recorded size and sha256.

        Raises:
            EngineSetError: names the first file that is missing or differs, with both values.
        """
        unlisted = [name for graph in self.graphs.values() for name in graph.files if name not in self.files]
        if unlisted:
            raise EngineSetError(f"{folder / MANIFEST} has no hash of {unlisted[0]}. {_REBUILD}")
        for name, info in self.files.items():
            file = folder / name
            if not file.is_file():
                raise EngineSetError(f"engine set {folder} lacks {name}. {_REBUILD}")
            if file.stat().st_size != info.bytes:
                raise EngineSetError(f"{file} has {file.stat().st_size} bytes, expected {info.bytes}. {_REBUILD}")
        with ThreadPoolExecutor() as pool:
            found = pool.map(lambda name: sha256_of(folder / name), self.files)
            for (name, info), digest in zip(self.files.items(), found, strict=True):
                if digest != info.sha256:
                    raise EngineSetError(
                        f"{folder / name} was changed: sha256 {digest}, expected {info.sha256}. {_REBUILD}"
                    )


_REBUILD = "The set is damaged: copy it again or rebuild it with trt-tts build"


def _nested(data: dict[str, Any], where: str) -> dict[str, Any]:
    return {
        "target": Target(**data["target"]),
        "limits": Limits(**data["limits"]),
        "checkpoint": CheckpointInfo(**data["checkpoint"]),
        "config": ModelConfig.from_json(data["config"], where),
        "graphs": {name: _graph(item) for name, item in data["graphs"].items()},
        "memory": tuple(MemoryLine(**item) for item in data.get("memory", ())),
        "verification": Verification.from_json(data["verification"]) if data.get("verification") else None,
        "quality": Quality.from_json(data["quality"]) if data.get("quality") else None,
        "files": {name: FileInfo(**item) for name, item in data["files"].items()},
    }


def _graph(data: dict[str, Any]) -> GraphInfo:
    tensors = {
        key: tuple(TensorInfo(item["name"], item["dtype"], tuple(item["shape"])) for item in data[key])
        for key in ("inputs", "outputs")
    }
    plan = PlanInfo.from_json(data["plan"]) if data.get("plan") else None
    return GraphInfo(**{**data, **tensors, "files": tuple(data["files"]), "plan": plan})
