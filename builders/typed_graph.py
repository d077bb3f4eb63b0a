"""FP32 graph -> the graph a plan is built from: precision, Q/DQ, fixed cache capacity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import onnx

from trt_tts.errors import UsageError

from .calibration_data import Calibration
from .export import save_model
from .precision import GEMMS, Typing, to_half
from .precision_map import PrecisionMap
from .qdq import insert_qdq

CAPACITY_AXIS = "C"


@dataclass(frozen=True)
class TypeRequest:
    """How a graph is to be typed."""

    precision: str
    rules: PrecisionMap
    calibration: Calibration | None
    capacity: int
    fp32_products: bool
    """Whether the card and builder can run matrix products in FP32."""


@dataclass(frozen=True)
class TypedGraph:
    """A typed graph on disk."""

    file: Path
    source: Path
    """The FP32 graph that was typed. Where it is smoothed its caches hold smoothed values, which no other graph reads
    as this one does."""
    typing: Typing
    products: dict[str, str]
    """Matrix products and convolutions by node name -> type."""
    linears: dict[str, int]
    """Linears of the layers of `gpt` -> number of weights; empty for other graphs."""

    @property
    def int8(self) -> tuple[str, ...]:
        """Linears in INT8."""
        return tuple(name for name, kind in self.products.items() if kind == "int8")

    @property
    def int8_share(self) -> float:
        """Of the weights of the layers' linears."""
        return sum(self.linears[node] for node in self.int8) / max(sum(self.linears.values()), 1)


def write_typed(name: str, source: Path, folder: Path, request: TypeRequest, ranges: dict[str, float]) -> TypedGraph:
    """Type `source` and write it to `folder`.

    Raises:
        UsageError: the precision map names nodes that are not there, or types that they cannot have.
        ExportError: a cache does not fit FP16, or the calibration does not belong to the graph.
    """
    check_request(name, source, request)
    if request.precision == "fp32":
        model, typing = onnx.load(source), Typing((), (), {}, {})
    else:
        model, typing = to_half(source, request.rules, ranges)
    scales = _int8_scales(request) if name == "gpt" else {}
    if scales:
        model = insert_qdq(model, scales, typing.divided)
    _fix_capacity(model, request.capacity)
    file = save_model(model, folder, name)
    return TypedGraph(file, source, typing, _products(source, typing, scales), _linears(source))


def check_request(name: str, source: Path, request: TypeRequest) -> None:
    """Check a precision map and a calibration against a graph.

    Raises:
        UsageError: as `write_typed`.
    """
    graph = onnx.load(source, load_external_data=False).graph
    nodes, weights = graph.node, {tensor.name for tensor in graph.initializer}
    linears = {node.name for node in nodes if node.op_type == "MatMul" and node.input[1] in weights}
    covered = request.calibration.scales.keys() if request.calibration else set()
    if name == "gpt" and request.precision == "int8":
        missing = sorted(node for node in linears - covered if node.startswith("layers."))
        if missing:
            raise UsageError(
                f"the calibration covers {len(covered)} of {len(covered) + len(missing)} linears; {missing[0]} is "
                f"missing. Calibrate this checkpoint anew: trt-tts calibrate"
            )
        if not _int8_scales(request):
            raise UsageError(
                "the precision map leaves no linear in INT8. Take lines out of it, or build with --precision fp16"
            )
    unused = request.rules.unused([node.name for node in nodes])
    if unused:
        raise UsageError(
            f"the precision map's pattern {unused[0]!r} matches no node of {name}; `trt-tts inspect "
            f"--nodes` on a set lists its products"
        )
    for node in nodes:
        pinned = request.rules.of(node.name)
        if request.precision == "fp32" and pinned not in (None, "fp32"):
            raise UsageError(
                f"the precision map pins {node.name} to {pinned}, and --precision fp32 types nothing. Build with "
                f"--precision fp16 or int8 and pin what should stay FP32"
            )
        if pinned == "fp32" and node.op_type in GEMMS and not request.fp32_products:
            raise UsageError(
                f"the precision map pins {node.name} to fp32; TensorRT-RTX compiles no FP32 matrix product for this "
                f"card. Allowed: fp16, int8"
            )
        if pinned == "int8" and node.name in linears and node.name not in covered:
            raise UsageError(
                f"the precision map pins {node.name} to int8, which the calibration does not cover. "
                f"Calibrate: trt-tts calibrate --dataset corpus/"
            )


def _products(source: Path, typing: Typing, scales: dict[str, float]) -> dict[str, str]:
    nodes = onnx.load(source, load_external_data=False).graph.node
    types = dict.fromkeys(typing.half, "fp16") | dict.fromkeys(scales, "int8")
    return {node.name: types.get(node.name, "fp32") for node in nodes if node.op_type in GEMMS}


def _linears(file: Path) -> dict[str, int]:
    graph = onnx.load(file, load_external_data=False).graph
    weights = {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer}
    linears = [node for node in graph.node if node.op_type == "MatMul" and node.input[1] in weights]
    return {node.name: weights[node.input[1]] for node in linears if node.name.startswith("layers.")}


def _int8_scales(request: TypeRequest) -> dict[str, float]:
    """Every calibrated linear with `int8`, the pinned ones with any other precision."""
    scales = request.calibration.scales if request.calibration else {}
    wanted = (None, "int8") if request.precision == "int8" else ("int8",)
    return {node: scale for node, scale in scales.items() if request.rules.of(node) in wanted}


def _fix_capacity(model: onnx.ModelProto, capacity: int) -> None:
    """TensorRT wants the length of a key-value cache at build time."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == CAPACITY_AXIS:
                dim.dim_value = capacity
