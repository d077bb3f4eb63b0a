"""calibration.json: the activation scales of a checkpoint's linears."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trt_tts.errors import UsageError
from trt_tts.files import new_file, read_json

from .checkpoint import Checkpoint
from .smoothing import Factors

DEFAULT_FILE = Path("calibration.json")
CALIBRATION_VERSION = 2


@dataclass(frozen=True)
class Calibration:
    """What a calibration run found."""

    method: str
    checkpoint: dict[str, str]
    """sha256 of the checkpoint's files."""
    scales: dict[str, float]
    """Linear of the `gpt` graph, by node name -> scale of its input: the value that 127 stands for, divided by 127."""
    errors: dict[str, float]
    """Linear -> power of its result's INT8 error over the power of the result, on some of the calibration's rows."""
    smoothing: Factors = field(default_factory=dict)
    """The linears that are smoothed; their scales are those of the smoothed inputs."""
    sensitivity: dict[str, float] = field(default_factory=dict)
    """Linear -> divergence of the code distributions from FP32's, in nats, with this linear alone in INT8; empty where
    it was not measured."""
    dataset: str = ""
    """Where the texts came from."""
    dataset_sha256: str = ""

    @property
    def title(self) -> str:
        """For people."""
        smoothed = f"{len(self.smoothing)} of {len(self.scales)} linears smoothed" if self.smoothing else "not smoothed"
        return f"calibrated by {self.method}, {smoothed}, on {self.dataset or 'unnamed texts'}"

    def save(self, file: Path) -> None:
        """Write as JSON; a file that is there is replaced."""
        with new_file(file) as work:
            work.write_text(json.dumps({"version": CALIBRATION_VERSION, **asdict(self)}, indent=1) + "\n", "utf-8")


def load_calibration(file: Path, checkpoint: Checkpoint) -> Calibration:
    """Read a file for the checkpoint it was made from.

    Raises:
        UsageError: it is missing, damaged, or was made from another checkpoint.
    """
    if not file.is_file():
        raise UsageError(
            f"INT8 needs a calibration, and there is no {file}. Make one: trt-tts calibrate --dataset corpus/ "
            f"-o {file}. Or build with --precision fp16"
        )
    data = read_json(file, UsageError)
    if data.get("version") != CALIBRATION_VERSION:
        raise UsageError(
            f"{file} has version {data.get('version')!r}; this program reads {CALIBRATION_VERSION}. Calibrate anew"
        )
    try:
        calibration = Calibration(
            method=str(data["method"]),
            checkpoint=dict(data["checkpoint"]),
            scales=_scales(data["scales"]),
            errors={name: float(data["errors"][name]) for name in data["scales"]},
            smoothing={str(name): tuple(map(float, values)) for name, values in data["smoothing"].items()},
            sensitivity={str(name): float(value) for name, value in data["sensitivity"].items()},
            dataset=str(data["dataset"]),
            dataset_sha256=str(data["dataset_sha256"]),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{file} is no calibration file ({error}). Calibrate anew") from error
    changed = [name for name, digest in checkpoint.hashes.items() if calibration.checkpoint.get(name) != digest]
    if changed:
        raise UsageError(
            f"{file} was made from another checkpoint than {checkpoint.path}: {changed[0]} differs. Calibrate this "
            f"one: trt-tts calibrate --checkpoint {checkpoint.path} -o {file}"
        )
    return calibration


def _scales(data: dict[str, Any]) -> dict[str, float]:
    scales = {name: float(scale) for name, scale in data.items()}
    if not scales:
        raise ValueError("it holds no scales")
    wrong = next((name for name, scale in scales.items() if not 0 < scale < math.inf), None)
    if wrong is not None:
        raise ValueError(f"the scale of {wrong} is {scales[wrong]}, not a positive number")
    return scales
