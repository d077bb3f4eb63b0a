"""What the manifest of a TensorRT set says about its plans, its memory and its self-test."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from trt_tts.selftest import CaseResult

ShapeRange = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class ProfileInfo:
    """One optimization profile of a plan."""

    name: str
    shapes: dict[str, ShapeRange]
    """Input -> smallest, typical and largest shape."""
    activation_bytes: int
    """As the builder reports it."""
    persistent_bytes: int
    """What each context of this profile keeps on the GPU besides, as the builder reports it."""


@dataclass(frozen=True)
class PlanInfo:
    """One plan as it was built."""

    onnx_sha256: dict[str, str]
    """Of the typed graph's files that the plan was built from."""
    profiles: tuple[ProfileInfo, ...]
    weight_bytes: int
    """As the builder reports it; 0 where it does not."""
    scratch_bytes: int
    products: dict[str, str]
    """Matrix products and convolutions: node name -> "fp32", "fp16" or "int8"."""
    kept: tuple[str, ...]
    """Nodes that the range guard moved to FP32."""
    scaled: dict[str, int]
    """Matrix products on values divided by 2 ** exponent, multiplied back in FP32."""
    int8_layers: int | None
    """Layers the engine inspector shows as INT8; None where the plan could not be opened by the builder."""
    simulated_snr_db: float | None
    """The typed graph, simulated on the CPU, against the FP32 graph; None where it gives codes only."""
    int8_share: float
    """Of the layers' linear weights."""
    calibration: str | None
    """Where the INT8 scales come from: method, smoothing, texts."""
    build_seconds: float
    build_peak_bytes: int
    """Largest resident size of the builder's process."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the manifest's JSON."""
        profiles = tuple(
            ProfileInfo(
                item["name"],
                {key: _range(value) for key, value in item["shapes"].items()},
                item["activation_bytes"],
                item["persistent_bytes"],
            )
            for item in data["profiles"]
        )
        return cls(**{**data, "profiles": profiles, "kept": tuple(data["kept"])})


def _range(data: list[list[int]]) -> ShapeRange:
    least, typical, most = (tuple(shape) for shape in data)
    return least, typical, most


@dataclass(frozen=True)
class MemoryLine:
    """One part of the device memory, in bytes."""

    part: str
    predicted: int
    built: int | None
    """From the builder's report; None for what no builder knows."""
    resident: bool


@dataclass(frozen=True)
class Verification:
    """Whether the set was run where it is meant to run."""

    verified: bool
    reason: str
    results: tuple[CaseResult, ...] = ()
    times: dict[str, dict[str, float]] = field(default_factory=dict)
    """With `--precision auto` on a GPU: precision -> profile -> seconds of a call; empty for one that failed."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the manifest's JSON."""
        return cls(**{**data, "results": tuple(CaseResult(**item) for item in data["results"])})
