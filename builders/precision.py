"""Gives an FP32 graph the types it is built with: FP16 where that is safe, FP32 islands elsewhere.

TensorRT networks are strongly typed, so the types in the graph are the types on the card. A node's type is, in this
order: what the user's precision map says, FP32 in the fixed islands, FP32 where the range guard saw values that FP16
cannot be trusted with, else FP16. Nodes that only move data keep the type of what they move. A matrix product is never
moved to FP32 by the guard (some cards build none): its values are divided by a power of two and multiplied back in
FP32. Inputs and outputs stay FP32, the key-value caches excepted.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from trt_tts.errors import ExportError

from .precision_map import PrecisionMap

GEMMS = frozenset({"MatMul", "Gemm", "Conv"})
CACHE_WRITE = "TensorScatter"
HALF_LIMIT = float(np.finfo(np.float16).max) / 2
"""A tensor that reaches more than this in FP32 is not trusted to FP16."""
_ISLAND_OPERATORS = frozenset(
    {"Exp", "Log", "Cos", "Sin", "Tanh", "Sqrt", "Pow", "Softmax", "LayerNormalization"}
    | {"ReduceMean", "ReduceSum", "CumSum", "TopK", "ConvTranspose"}
)
_ISLAND_SCOPES = re.compile(
    r""                             # the graph's own body: embedding sum, positions, mask, sampler
    r"|layers\.\d+"                 # the residual stream
    r"|(.*\.)?norm"                 # norm statistics
    r"|.*layernorm"
    r"|(.*\.)?vocos\.head(\.istft)?"  # exp, cos, sin and overlap-add
    r"|preprocessor_mel|quantizer.*",
    re.VERBOSE,
)  # fmt: skip
MOVES = frozenset(
    {"Reshape", "Transpose", "Slice", "Split", "Concat", "Squeeze", "Unsqueeze"}
    | {"Expand", "Gather", "GatherElements", "Identity", "Pad"}
)
_SINGLE, _HALF = np.dtype(np.float32), np.dtype(np.float16)


@dataclass(frozen=True)
class Typing:
    """What the pass decided, for the manifest."""

    half: tuple[str, ...]
    """Matrix products and convolutions in FP16."""
    kept: tuple[str, ...]
    """Nodes that the range guard moved to FP32."""
    scaled: dict[str, int]
    """Matrix products computed on values divided by 2 ** exponent, weights and inputs together."""
    divided: dict[str, int]
    """Of these, the exponent of the first input alone."""


def is_island(node: gs.Node) -> bool:
    """Whether a node stays FP32 by rule."""
    if node.op in GEMMS:
        return False
    feeds_softmax = any(consumer.op == "Softmax" for output in node.outputs for consumer in output.outputs)
    scope = node.name.rpartition("/")[0]
    return node.op in _ISLAND_OPERATORS or feeds_softmax or _ISLAND_SCOPES.fullmatch(scope) is not None


def to_half(file: Path, rules: PrecisionMap, ranges: dict[str, float]) -> tuple[onnx.ModelProto, Typing]:
    """Type a graph.

    Args:
        file: an FP32 graph as `export_graph` writes it.
        rules: the user's precision map for this graph.
        ranges: largest magnitude of tensors, by name, as `ranges.record` returns them; a tensor that is not there is
            taken to fit.

    Raises:
        ExportError: a key-value cache does not fit FP16.
    """
    return _HalfPass(_load(file), rules, ranges).run()


def _load(file: Path) -> gs.Graph:
    """A graph whose tensors all know their types."""
    model = onnx.shape_inference.infer_shapes(onnx.load(file, load_external_data=False))
    graph = gs.import_onnx(model)
    map_weights(graph, model, file.parent)
    unknown = [name for name, tensor in graph.tensors().items() if tensor.dtype is None and name]
    if unknown:
        raise ExportError(f"no type could be inferred for {unknown[:3]}. This is a defect: please report it")
    return graph


def map_weights(graph: gs.Graph, model: onnx.ModelProto, folder: Path) -> None:
    """Leave weights on disk until they are converted: loaded, they would be in memory three times."""
    tensors = graph.tensors()
    for stored in model.graph.initializer:
        if stored.data_location == onnx.TensorProto.EXTERNAL:
            place = onnx.external_data_helper.ExternalDataInfo(stored)
            dtype = onnx.helper.tensor_dtype_to_np_dtype(stored.data_type)
            shape, offset = tuple(stored.dims), place.offset or 0
            tensors[stored.name].data_location = None
            tensors[stored.name].values = np.memmap(folder / place.location, dtype, "r", offset, shape)


def is_float(tensor: gs.Tensor) -> bool:
    """Whether a tensor exists and holds floating-point numbers."""
    return not tensor.is_empty() and np.dtype(tensor.dtype) in (_SINGLE, _HALF)


class _HalfPass:
    def __init__(self, graph: gs.Graph, rules: PrecisionMap, ranges: dict[str, float]) -> None:
        self.graph, self.rules, self.ranges = graph, rules, ranges
        self.copies: dict[tuple[str, np.dtype[Any]], gs.Tensor] = {}
        self.kept: list[str] = []
        self.half: list[str] = []
        self.scaled: dict[str, int] = {}
        self.divided: dict[str, int] = {}

    def run(self) -> tuple[onnx.ModelProto, Typing]:
        for node in list(self.graph.nodes):
            if node.op == CACHE_WRITE:
                self._type_cache(node)
            elif node.op in GEMMS and self.rules.of(node.name) != "fp32":
                self._type_gemm(node)
            elif node.op not in ("Cast", "Shape") and any(map(is_float, (*node.inputs, *node.outputs))):
                self._set_type(node, self._choose(node))
        self._restore_outputs()
        self.graph.cleanup().toposort()
        return gs.export_onnx(self.graph), Typing(tuple(self.half), tuple(self.kept), self.scaled, self.divided)

    def _choose(self, node: gs.Node) -> np.dtype[Any]:
        pinned = self.rules.of(node.name)
        if pinned in ("fp32", "fp16"):  # int8 is for linears, whatever else a pattern matches
            return _SINGLE if pinned == "fp32" else _HALF
        moved = [item for item in node.inputs if is_float(item) and isinstance(item, gs.Variable)]
        if node.op in MOVES and moved:
            return _SINGLE if any(item.dtype == _SINGLE for item in moved) else _HALF
        if is_island(node) and node.op != "Gather":
            return _SINGLE
        if any(self._peak(tensor) > HALF_LIMIT for tensor in (*node.inputs, *node.outputs)):
            self.kept.append(node.name)
            return _SINGLE
        return _HALF

    def _type_cache(self, node: gs.Node) -> None:
        """The caches are FP16 for the whole sequence: nothing can be undone after them."""
        if self._peak(node.outputs[0]) > HALF_LIMIT:
            raise ExportError(
                f"{node.name}: keys or values reach {self._peak(node.outputs[0]):.3g}, more than half of what FP16 "
                f"holds. Build with --precision fp32 for a card and TensorRT that allow it"
            )
        node.inputs[0].dtype = _HALF
        self._set_type(node, _HALF)

    def _type_gemm(self, node: gs.Node) -> None:
        """FP16 inputs and result; where either is too large, scaled by powers of two that FP32 undoes."""
        output = node.outputs[0]
        inputs = {i: _excess(self._peak(tensor)) for i, tensor in enumerate(node.inputs[:2])}
        shrink = sum(inputs.values())
        needed = max(_excess(self._peak(tensor)) for tensor in (output, *node.inputs[2:]))
        extra = max(needed - shrink, 0)
        # A weight holds the rest; between two activations the first one does.
        holder = 1 if isinstance(node.inputs[1], gs.Constant) else 0
        inputs[holder] += extra
        for i, exponent in inputs.items():
            node.inputs[i] = self._scaled(node.inputs[i], exponent)
        self.half.append(node.name)
        if shrink + extra == 0:
            self._set_type(node, _HALF)
            return
        if len(node.inputs) > 2:
            node.inputs[2] = self._scaled(node.inputs[2], shrink + extra)
        self.scaled[node.name], self.divided[node.name] = shrink + extra, inputs[0]
        small = gs.Variable(f"{output.name}.small", _HALF, output.shape)
        node.outputs = [small]
        self._set_type(node, _HALF)
        wide = self._copy(small, _SINGLE)
        factor = gs.Constant(f"{output.name}.factor", np.array(2.0 ** (shrink + extra), np.float32))
        self.graph.layer(op="Mul", name=f"{node.name}.undo", inputs=[wide, factor], outputs=[output])

    def _scaled(self, tensor: gs.Tensor, exponent: int) -> gs.Tensor:
        """`tensor` / 2 ** exponent, divided in FP32."""
        if exponent == 0:
            return tensor
        factor = np.float32(2.0**-exponent)
        name = f"{tensor.name}.scaled{exponent}"
        if isinstance(tensor, gs.Constant):
            return gs.Constant(name, np.asarray(tensor.values * factor, np.float32))
        small = gs.Variable(name, _SINGLE, tensor.shape)
        inputs = [self._copy(tensor, _SINGLE), gs.Constant(f"{name}.factor", np.array(factor))]
        self.graph.layer(op="Mul", name=f"{name}/Mul", inputs=inputs, outputs=[small])
        return small

    def _set_type(self, node: gs.Node, kind: np.dtype[Any]) -> None:
        node.inputs = [self._copy(tensor, kind) if is_float(tensor) else tensor for tensor in node.inputs]
        for tensor in node.outputs:
            if is_float(tensor):
                tensor.dtype = kind

    def _copy(self, tensor: gs.Tensor, kind: np.dtype[Any]) -> gs.Tensor:
        """`tensor` as `kind`: itself, a converted constant, or the result of one shared Cast."""
        if np.dtype(tensor.dtype) == kind:
            return tensor
        key = (tensor.name, kind)
        if key not in self.copies:
            name = f"{tensor.name}.{kind.name}"
            if isinstance(tensor, gs.Constant):
                self.copies[key] = gs.Constant(name, _converted(tensor, kind))
            else:
                self.copies[key] = self._cast(tensor, gs.Variable(name, kind, tensor.shape))
        return self.copies[key]

    def _cast(self, source: gs.Variable, target: gs.Variable) -> gs.Variable:
        to = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(target.dtype))
        self.graph.layer(op="Cast", name=f"{target.name}/Cast", inputs=[source], outputs=[target], attrs={"to": to})
        return target

    def _restore_outputs(self) -> None:
        for i, tensor in enumerate(self.graph.outputs):
            produced = tensor.inputs[0]
            if produced.op == CACHE_WRITE or not is_float(tensor) or tensor.dtype == _SINGLE:
                continue
            inner = gs.Variable(f"{tensor.name}.half", _HALF, tensor.shape)
            produced.outputs = [inner if item is tensor else item for item in produced.outputs]
            for consumer in list(tensor.outputs):
                consumer.inputs = [inner if item is tensor else item for item in consumer.inputs]
            tensor.dtype = _SINGLE
            self.graph.outputs[i] = self._cast(inner, tensor)

    def _peak(self, tensor: gs.Tensor) -> float:
        if isinstance(tensor, gs.Constant):
            return float(np.abs(tensor.values).max(initial=0)) if is_float(tensor) else 0.0
        peak = self.ranges.get(tensor.name, 0.0)
        if not math.isfinite(peak):
            raise ExportError(f"tensor {tensor.name} is not finite in FP32. Check the checkpoint")
        return peak


def _converted(tensor: gs.Constant, kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
    limit = float(np.finfo(kind).max)
    return np.asarray(np.clip(tensor.values, -limit, limit), dtype=kind)


def _excess(peak: float) -> int:
    """The smallest exponent e >= 0 with peak / 2 ** e <= HALF_LIMIT."""
    return max(0, math.ceil(math.log2(peak / HALF_LIMIT))) if peak > 0 else 0
