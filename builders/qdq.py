"""Puts the linears of a typed graph on INT8: explicit Q/DQ, symmetric, one scale per activation tensor and one per
output channel of a weight. Weights are stored as int8 behind a DequantizeLinear.

Scheme: Wu et al., "Integer Quantization for Deep Learning Inference" (2020); the form TensorRT expects of explicitly
quantized networks.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_graphsurgeon as gs

from trt_tts.errors import ExportError

LARGEST = 127
_SMALLEST_SCALE = 1e-6
"""FP16 holds it with 4 bits, which is enough for a scale that is rounded up."""


def insert_qdq(
    model: onnx.ModelProto, scales: dict[str, float], divided: dict[str, int] | None = None
) -> onnx.ModelProto:
    """Quantize the MatMuls that `scales` names.

    Args:
        model: typed, as `precision.to_half` leaves it.
        scales: node name -> scale of its activation input: the value that 127 stands for, divided by 127.
        divided: node name -> exponent of the power of two that its input was divided by, as `Typing.divided`.

    Raises:
        ExportError: a node is missing, no MatMul by a constant, or its scale is not a positive FP16 number.
    """
    graph = gs.import_onnx(model)
    nodes = {node.name: node for node in graph.nodes}
    for name, scale in scales.items():
        node = nodes.get(name)
        if node is None or not _is_linear(node):
            raise ExportError(f"{name} is no linear of this graph and cannot be INT8. Calibrate this checkpoint anew")
        held = scale / 2 ** (divided or {}).get(name, 0)
        if not _SMALLEST_SCALE <= held <= float(np.finfo(np.float16).max):
            raise ExportError(f"{name}: its scale is {scale!r}; allowed: positive, within FP16. Calibrate anew")
        _quantize(graph, node, held)
    graph.cleanup().toposort()
    return gs.export_onnx(graph)


def quantize_weight(weight: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float16]]:
    """Weight [K, N] -> int8 [K, N] and the scale of each output channel, float16 [N]."""
    exact = np.maximum(np.abs(weight.astype(np.float32)).max(axis=0) / LARGEST, _SMALLEST_SCALE)
    scale = exact.astype(np.float16)
    # Rounded up, so that the largest weight is never clipped.
    scale = np.where(scale < exact, np.nextafter(scale, np.float16(np.inf)), scale)
    # Divided by the rounded scale, so that its rounding costs no accuracy.
    levels = np.rint(weight.astype(np.float32) / scale.astype(np.float32))
    return np.clip(levels, -LARGEST, LARGEST).astype(np.int8), scale


def _is_linear(node: gs.Node) -> bool:
    weight = node.inputs[1] if node.op == "MatMul" else None
    return isinstance(weight, gs.Constant) and len(weight.shape) == 2


def _quantize(graph: gs.Graph, node: gs.Node, scale: float) -> None:
    source, weight = node.inputs
    step = gs.Constant(f"{node.name}.scale", np.array(scale, np.float16))
    zero = gs.Constant(f"{node.name}.zero", np.array(0, np.int8))
    levels = gs.Variable(f"{node.name}.levels", np.int8, source.shape)
    values = gs.Variable(f"{node.name}.values", np.float16, source.shape)
    graph.layer(op="QuantizeLinear", name=f"{node.name}.q", inputs=[source, step, zero], outputs=[levels])
    graph.layer(op="DequantizeLinear", name=f"{node.name}.dq", inputs=[levels, step, zero], outputs=[values])
    stored, channel = quantize_weight(weight.values)
    wide = gs.Variable(f"{node.name}.weight", np.float16, weight.shape)
    inputs = [
        gs.Constant(f"{node.name}.weight.int8", stored),
        gs.Constant(f"{node.name}.weight.scale", channel),
        gs.Constant(f"{node.name}.weight.zero", np.zeros(channel.shape, np.int8)),
    ]
    attributes = {"axis": 1}
    graph.layer(op="DequantizeLinear", name=f"{node.name}.wdq", inputs=inputs, outputs=[wide], attrs=attributes)
    node.inputs = [values, wide]
