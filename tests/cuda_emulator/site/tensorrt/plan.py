"""What a plan file holds: a zip with a JSON head and, unless the plan is idle, a self-contained ONNX graph."""

import io
import json
import math
import re
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Self

import numpy as np

from .shapes import Dim, Names, Shape, evaluate, learn

VERSION = "11.0.0"
FORMAT = "emulated TensorRT plan"
COMPUTE_CAPABILITY = "7.5"
PERSISTENT = 512
"""Device bytes that each context keeps apart from activations."""
_LEAST_ACTIVATIONS = 4096
_ALIGNMENT = 256
_CACHE = re.compile(r"[kv]_\d+(_out)?")

Range = tuple[Shape, Shape, Shape]
Profile = dict[str, Range]
"""Smallest, typical and largest shape by input."""


class PlanError(ValueError):
    """Bytes that are no plan for this release and card."""


@dataclass(frozen=True)
class Tensor:
    """An input or output of a plan."""

    name: str
    mode: str
    """ "INPUT" or "OUTPUT"."""
    dtype: str
    """numpy's name: "float16"."""
    dims: tuple[Dim, ...]
    """Numbers, names and formulas over the names of inputs."""

    @property
    def is_input(self) -> bool:
        return self.mode == "INPUT"

    @property
    def shape(self) -> Shape:
        return evaluate(self.dims, {})

    @property
    def alias(self) -> str | None:
        """The input that an output is written into."""
        return self.name.removesuffix("_out") if not self.is_input and is_cache(self.name) else None

    def nbytes(self, shape: Shape) -> int:
        return math.prod(shape) * np.dtype(self.dtype).itemsize


def is_cache(name: str) -> bool:
    return _CACHE.fullmatch(name) is not None


@dataclass(frozen=True)
class Plan:
    """A plan in memory."""

    tensors: tuple[Tensor, ...]
    profiles: tuple[Profile, ...]
    weights: int
    layers: list[dict | str] = field(default_factory=list)
    """What the engine inspector tells."""
    model: bytes | None = None
    """An ONNX graph with its weights; None in an idle plan."""

    @property
    def activations(self) -> tuple[int, ...]:
        """Device bytes by profile: a figure that grows with the shapes, not a truth about any GPU."""
        return tuple(_activation_bytes(self.tensors, profile) for profile in self.profiles)

    def to_bytes(self) -> bytes:
        tensors = [{**asdict(tensor), "shape": tensor.shape} for tensor in self.tensors]
        head = {
            "format": FORMAT,
            "version": VERSION,
            "compute_capability": COMPUTE_CAPABILITY,
            "profiles": self.profiles,
            "activations": self.activations,
            "persistent": PERSISTENT,
            "weights": self.weights,
            "tensors": tensors,
            "layers": self.layers,
        }
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            # A fixed date: the same graph gives the same plan, byte by byte.
            file.writestr(zipfile.ZipInfo("head.json"), json.dumps(head))
            if self.model is not None:
                file.writestr(zipfile.ZipInfo("model.onnx"), self.model)
        return buffer.getvalue()

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read what `to_bytes` wrote.

        Raises:
            PlanError: damaged, of another release, or for another card.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                head = json.loads(file.read("head.json"))
                model = file.read("model.onnx") if "model.onnx" in file.namelist() else None
        # zipfile raises many kinds on damaged files.
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, OSError, NotImplementedError) as error:
            raise PlanError(f"these bytes are no emulated TensorRT plan: {error}") from error
        _require_ours(head)
        profiles = tuple({name: _range(shapes) for name, shapes in item.items()} for item in head["profiles"])
        tensors = tuple(
            Tensor(item["name"], item["mode"], item["dtype"], tuple(item["dims"])) for item in head["tensors"]
        )
        return cls(tensors, profiles, head["weights"], head["layers"], model)


def idle_plan(tensors: Iterable[Tensor], profiles: Sequence[Profile], weights: int = 0) -> bytes:
    """A plan whose launches take their place in a stream and touch no memory.

    Args:
        tensors: inputs and outputs. Dimensions may be names and formulas, as in an ONNX graph.
        profiles: smallest, typical and largest shape by input.
        weights: device bytes that the opened plan takes.
    """
    return Plan(tuple(tensors), tuple(profiles), weights).to_bytes()


def _range(shapes: list[list[int]]) -> Range:
    least, typical, most = shapes
    return tuple(least), tuple(typical), tuple(most)


def _require_ours(head: dict) -> None:
    wanted = {"format": FORMAT, "version": VERSION, "compute_capability": COMPUTE_CAPABILITY}
    for key, value in wanted.items():
        if head.get(key) != value:
            raise PlanError(f"incompatible {key} of an emulated plan: it has {head.get(key)}, needed is {value}")


def _activation_bytes(tensors: Iterable[Tensor], profile: Profile) -> int:
    names: Names = {}
    own = [tensor for tensor in tensors if not is_cache(tensor.name)]
    for tensor in own:
        if tensor.is_input and tensor.name in profile:
            learn(tensor.dims, profile[tensor.name][2], names)
    held = sum(tensor.nbytes(evaluate(tensor.dims, names)) for tensor in own)
    return max(_LEAST_ACTIVATIONS, -(-3 * held // _ALIGNMENT) * _ALIGNMENT)
