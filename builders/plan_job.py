"""One plan to build, and what its builder reports: what travels between the command and the builder's process."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from .build_log import MemoryLines
from .profiles import Profile, ShapeRange


@dataclass(frozen=True)
class PlanJob:
    """What to build."""

    graph: str
    onnx: str
    """Path of a typed graph."""
    plan: str
    """Path of the plan to write."""
    flavour: str
    compute_capability: str | None
    """The card to build for ahead of time; None for the GPU here."""
    profiles: tuple[Profile, ...]
    workspace: int
    """Bytes of the card that tactics may use."""
    timing_cache: str | None
    """A file that is read where it exists and written after the build; None where nothing is timed."""
    device: int = 0
    """The GPU that builds, by its number in `gpu_reading.visible_gpu`."""

    def save(self, file: Path) -> None:
        """Write as JSON."""
        file.write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what `save` wrote."""
        data: dict[str, Any] = json.loads(file.read_text("utf-8"))
        profiles = tuple(
            Profile(item["name"], {name: _shape_range(value) for name, value in item["shapes"].items()})
            for item in data["profiles"]
        )
        return cls(**{**data, "profiles": profiles})


def _shape_range(data: dict[str, list[int]]) -> ShapeRange:
    return ShapeRange(tuple(data["least"]), tuple(data["typical"]), tuple(data["most"]))


@dataclass(frozen=True)
class PlanReport:
    """What came of it."""

    memory: MemoryLines
    seconds: float
    peak_bytes: int
    """Largest resident size of the builder's process."""
    cuda: str | None
    """CUDA release the builder names."""
    int8_layers: int | None
    """Layers that the engine inspector shows as INT8; None where the plan cannot be opened here."""

    def save(self, file: Path) -> None:
        """Write as JSON."""
        file.write_text(json.dumps(asdict(self)), "utf-8")

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read what `save` wrote."""
        data: dict[str, Any] = json.loads(file.read_text("utf-8"))
        memory = data["memory"]
        lists = {key: tuple(memory[key]) for key in ("activations", "persistent")}
        return cls(**{**data, "memory": MemoryLines(**{**memory, **lists})})
