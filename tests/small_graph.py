"""Hand-made ONNX graphs: written, run and asked for their types."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_conv, op_gemm, op_matmul

Array = np.ndarray[Any, Any]
FLOAT, HALF, INT8 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT8


def node(name: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    """`name` is scope/Operator, as the exporter names nodes."""
    operator = name.rpartition("/")[2].partition("_")[0]
    return helper.make_node(operator, inputs.split(), outputs.split(), name=name, **attributes)


def write(
    folder: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
    constants: dict[str, Array] | None = None,
    name: str = "graph",
) -> Path:
    """Write a graph; inputs and outputs are name -> shape, or name -> (type, shape)."""
    values = [
        [helper.make_tensor_value_info(key, *(item if isinstance(item, tuple) else (FLOAT, item))) for key, item in io]
        for io in (inputs.items(), outputs.items())
    ]
    weights = [numpy_helper.from_array(value, key) for key, value in (constants or {}).items()]
    graph = helper.make_graph(nodes, name, *values, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    onnx.checker.check_model(model, full_check=True)
    file = folder / f"{name}.onnx"
    onnx.save(model, file)
    return file


def run(model: onnx.ModelProto | Path, feed: dict[str, Array]) -> dict[str, Array]:
    """All outputs, by name; feeds get the float type that the graph takes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    half = {item.name for item in session.get_inputs() if item.type == "tensor(float16)"}
    given = {name: value.astype(np.float16) if name in half else value for name, value in feed.items()}
    return dict(zip((item.name for item in session.get_outputs()), session.run(None, given), strict=True))


def _accumulating_in_fp32(operator: Any) -> Any:
    """A product that adds up in FP32 and rounds once, as cards do."""

    def _run(self: Any, *inputs: Any, **attributes: Any) -> tuple[Array]:
        wide = [item if item is None else item.astype(np.float32) for item in inputs]
        return (operator._run(self, *wide, **attributes)[0].astype(inputs[0].dtype),)

    return type(operator.__name__.partition("_")[0], (operator,), {"op_domain": "", "_run": _run})


_PRODUCTS = [_accumulating_in_fp32(item) for item in (op_matmul.MatMul, op_gemm.Gemm_7, op_conv.Conv)]


class GatherElements(OpRun):
    """The reference's own stops at 64 entries."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        return (np.take_along_axis(data, indices, axis),)


def run_rounded(model: onnx.ModelProto, feed: dict[str, Array]) -> dict[str, Array]:
    """As `run`, but every FP16 tensor is rounded to FP16 and overflows like it.

    ONNX Runtime has few FP16 kernels on the CPU: it computes in FP32 and drops the casts between such nodes.
    """
    half = {item.name for item in model.graph.input if item.type.tensor_type.elem_type == HALF}
    given = {name: value.astype(np.float16) if name in half else value for name, value in feed.items()}
    with np.errstate(all="ignore"):
        found = ReferenceEvaluator(model, new_ops=[*_PRODUCTS, GatherElements]).run(None, given)
    return dict(zip((item.name for item in model.graph.output), found, strict=True))


def types_of(model: onnx.ModelProto) -> dict[str, int]:
    """Tensor -> element type, inferred anew from inputs and operators."""
    bare = onnx.ModelProto.FromString(model.SerializeToString())
    del bare.graph.value_info[:]
    graph = onnx.shape_inference.infer_shapes(bare, check_type=True, strict_mode=True).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    return types | {tensor.name: tensor.data_type for tensor in graph.initializer}


def named(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """Nodes by name."""
    return {item.name: item for item in model.graph.node}


def constants_of(model: onnx.ModelProto) -> dict[str, Array]:
    """Initializers by name."""
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def relative_error(expected: Array, found: Array) -> float:
    """Largest difference over the largest magnitude; infinite where something is not finite."""
    if not np.isfinite(found).all():
        return float("inf")
    wide = expected.astype(np.float64)
    return float(np.abs(wide - found).max() / np.abs(wide).max())
