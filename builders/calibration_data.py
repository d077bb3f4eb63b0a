"""calibration.json: the activation scales of a checkpoint's linears."""

from __future__ import annotations

import json
import reprlib
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from trt_tts.errors import UsageError
from trt_tts.files import new_file, read_json

from .checkpoint import Checkpoint
from .smoothing import Factors, linear_widths

DEFAULT_FILE = Path("calibration.json")
CALIBRATION_VERSION = 2
LARGEST_NUMBER = 1e9
Kind = TypeVar("Kind")


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
    if file.is_dir():
        raise UsageError(f"{file} is a folder; name the calibration file in it, such as {file / DEFAULT_FILE}")
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
        calibration = _read(data)
        changed = [name for name, digest in checkpoint.hashes.items() if calibration.checkpoint.get(name) != digest]
        if not changed:
            _check_linears(calibration, linear_widths(checkpoint.config.gpt))
    except ValueError as error:
        raise UsageError(f"{file} is no calibration file: {error}. Calibrate anew") from error
    if changed:
        raise UsageError(
            f"{file} was made from another checkpoint than {checkpoint.path}: {changed[0]} differs. Calibrate this "
            f"one: trt-tts calibrate --checkpoint {checkpoint.path} -o {file}"
        )
    return calibration


def _read(data: dict[str, Any]) -> Calibration:
    """Raises ValueError naming the key and the value that are wrong."""
    scales = _numbers(data, "scales")
    smallest = min(scales.values(), default=1.0)
    if not scales or smallest <= 0:
        raise ValueError(f"a scale is {smallest}, not above 0" if scales else "it holds no scales")
    smoothing = {node: _factors(node, values) for node, values in _part(data, "smoothing", dict).items()}
    return Calibration(
        method=_part(data, "method", str),
        checkpoint=_part(data, "checkpoint", dict),
        scales=scales,
        errors=_numbers(data, "errors"),
        smoothing=smoothing,
        sensitivity=_numbers(data, "sensitivity"),
        dataset=_part(data, "dataset", str),
        dataset_sha256=_part(data, "dataset_sha256", str),
    )


def _check_linears(calibration: Calibration, widths: dict[str, int]) -> None:
    """Raises ValueError unless every part speaks of the same linears, which the checkpoint has."""
    known = calibration.scales.keys()
    unknown = [node for node in known if node not in widths]
    if unknown:
        raise ValueError(f"{unknown[0]} is no linear of this checkpoint")
    for name, part in (("errors", calibration.errors), ("sensitivity", calibration.sensitivity)):
        odd = part.keys() ^ known
        if odd and (part or name == "errors"):
            raise ValueError(f'"{name}" and "scales" differ in {min(odd)}')
    for node, factors in calibration.smoothing.items():
        if node not in known:
            raise ValueError(f'"smoothing" names {node}, and "scales" does not')
        if len(factors) != widths[node]:
            raise ValueError(f"{node} has {widths[node]} input channels and {len(factors)} smoothing factors")


def _part(data: dict[str, Any], key: str, kind: type[Kind]) -> Kind:
    value = data.get(key)
    if not isinstance(value, kind):
        expected = "a text" if kind is str else "an object"
        raise ValueError(f'"{key}" is {reprlib.repr(value)}, not {expected}' if key in data else f'it lacks "{key}"')
    return value


def _numbers(data: dict[str, Any], key: str) -> dict[str, float]:
    return {name: _number(f'"{key}" of {name}', value) for name, value in _part(data, key, dict).items()}


def _factors(node: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, list):
        raise ValueError(f'"smoothing" of {node} is {reprlib.repr(values)}, not a list')
    factors = tuple(_number(f'"smoothing" of {node}', value) for value in values)
    if min(factors, default=1.0) <= 0:
        raise ValueError(f'"smoothing" of {node} holds {min(factors)}; factors are above 0')
    return factors


def _number(what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST_NUMBER:
        raise ValueError(f"{what} is {reprlib.repr(value)}, not a number from 0 to {LARGEST_NUMBER:g}")
    return float(value)
