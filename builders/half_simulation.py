"""A typed graph as an FP32 graph that rounds where the typed one does, for a CPU.

ONNX Runtime has few FP16 kernels on the CPU: it computes such nodes in FP32 and drops the casts between them, so
neither rounding nor overflow would be seen. Here every FP16 result is rounded by arithmetic: to 11 bits with
Veltkamp's splitting (Dekker, "A floating-point technique for extending the available precision", 1971), to infinity
above FP16's range. Ties may go either way, and subnormals keep their bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_graphsurgeon as gs

from .export import save_model
from .precision import CACHE_WRITE, MOVES, map_weights

_SPLITTER = np.float32(2**13 + 1)
_OVERFLOW = np.float32(65520)
"""The smallest magnitude that rounds to infinity."""
_SINGLE, _HALF = np.dtype(np.float32), np.dtype(np.float16)


def write_simulation(file: Path, target: Path) -> Path:
    """Write `target`, the FP32 graph that gives what the typed graph `file` gives; returns it.

    Inputs and outputs keep their names; the FP16 ones become FP32, and caches may be of any length.
    """
    model = onnx.shape_inference.infer_shapes(onnx.load(file, load_external_data=False))
    graph = gs.import_onnx(model)
    map_weights(graph, model, file.parent)
    for node in list(graph.nodes):
        if node.op == "DequantizeLinear" and isinstance(node.inputs[0], gs.Constant):
            _dequantize(node)
    graph.cleanup()
    half = [tensor for tensor in graph.tensors().values() if tensor.dtype == _HALF]
    for node in list(graph.nodes):
        if node.op == "Cast" and node.outputs[0].dtype == _HALF:
            node.attrs["to"] = onnx.TensorProto.FLOAT
        if node.op not in (*MOVES, CACHE_WRITE):
            for output in list(node.outputs):
                if output.dtype == _HALF:
                    _round(graph, node, output)
    for tensor in half:
        if isinstance(tensor, gs.Constant):
            _widen(graph, tensor)
        else:
            tensor.dtype = _SINGLE
    for node in graph.nodes:
        if node.op == CACHE_WRITE:
            for cache in (node.inputs[0], node.outputs[0]):
                cache.shape = [*cache.shape[:2], "C", *cache.shape[3:]]
    graph.cleanup().toposort()
    return save_model(gs.export_onnx(graph), target.parent, target.stem)


def _dequantize(node: gs.Node) -> None:
    """A weight as the FP16 numbers it stands for: ONNX Runtime would compute them anew at every call."""
    levels, steps, output = node.inputs[0].values, node.inputs[1].values, node.outputs[0]
    weight = gs.Constant(f"{output.name}.half", (levels.astype(np.float32) * steps.astype(np.float32)).astype(_HALF))
    for consumer in list(output.outputs):
        consumer.inputs = [weight if item is output else item for item in consumer.inputs]
    node.outputs.clear()


def _widen(graph: gs.Graph, constant: gs.Constant) -> None:
    """Behind a Cast, which ONNX Runtime folds: the weights stay small on disk."""
    wide = gs.Variable(f"{constant.name}.wide", _SINGLE, constant.shape)
    for consumer in list(constant.outputs):
        consumer.inputs = [wide if item is constant else item for item in consumer.inputs]
    graph.layer(op="Cast", inputs=[constant], outputs=[wide], attrs={"to": onnx.TensorProto.FLOAT})


def _round(graph: gs.Graph, node: gs.Node, output: gs.Variable) -> None:
    name = output.name
    exact, split, rest, near, size, fits, beyond = (
        gs.Variable(f"{name}.round.{part}", np.bool_ if part == "fits" else _SINGLE)
        for part in ("exact", "split", "rest", "near", "size", "fits", "beyond")
    )
    node.outputs = [exact if item is output else item for item in node.outputs]
    splitter, limit, zero = (
        gs.Constant(f"{name}.round.{part}", np.array(value, np.float32))
        for part, value in (("splitter", _SPLITTER), ("limit", _OVERFLOW), ("zero", 0))
    )
    graph.layer(op="Mul", inputs=[exact, splitter], outputs=[split])
    graph.layer(op="Sub", inputs=[split, exact], outputs=[rest])
    graph.layer(op="Sub", inputs=[split, rest], outputs=[near])
    graph.layer(op="Abs", inputs=[exact], outputs=[size])
    graph.layer(op="Less", inputs=[size, limit], outputs=[fits])
    graph.layer(op="Div", inputs=[exact, zero], outputs=[beyond])
    graph.layer(op="Where", inputs=[fits, near, beyond], outputs=[output])
