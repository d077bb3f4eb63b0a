"""What the emulated builder takes from an ONNX file. Apart from the rest: running a plan needs no `onnx`."""

import math
from dataclasses import dataclass

import onnx

from .plan import Tensor

_PRODUCTS = {"MatMul": "gemm", "Gemm": "gemm", "Conv": "convolution", "ConvTranspose": "deconvolution"}


@dataclass(frozen=True)
class OnnxGraph:
    """A graph, with its weights inside."""

    model: bytes
    tensors: tuple[Tensor, ...]
    weights: int
    """Bytes of all initializers, scalars counted."""
    layers: list[dict]


def read_graph(path: str) -> OnnxGraph:
    """Read a file and the external weights beside it.

    Raises:
        OSError: a file is missing.
        google.protobuf.message.DecodeError: it is no ONNX file.
        onnx.checker.ValidationError: the weights beside it are not those of the graph.
    """
    model = onnx.load(path)
    weights = sum(_bytes(item.data_type, item.dims) for item in model.graph.initializer)
    return OnnxGraph(model.SerializeToString(), _tensors(model.graph), weights, _layers(model.graph))


def _tensors(graph: onnx.GraphProto) -> tuple[Tensor, ...]:
    stored = {item.name for item in graph.initializer}
    inputs = [_tensor(item, "INPUT") for item in graph.input if item.name not in stored]
    return (*inputs, *(_tensor(item, "OUTPUT") for item in graph.output))


def _tensor(value: onnx.ValueInfoProto, mode: str) -> Tensor:
    kind = value.type.tensor_type
    dims = tuple(dim.dim_param or dim.dim_value for dim in kind.shape.dim)
    return Tensor(value.name, mode, onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).name, dims)


def _bytes(kind: int, dims: list[int]) -> int:
    return math.prod(dims) * onnx.helper.tensor_dtype_to_np_dtype(kind).itemsize


def _layers(graph: onnx.GraphProto) -> list[dict]:
    """One layer per product, INT8 operands marked as the real inspector does it."""
    quantized = {node.output[0] for node in graph.node if node.op_type == "DequantizeLinear"}
    return [
        {
            "Name": node.name,
            "LayerType": _PRODUCTS[node.op_type],
            "Inputs": [
                {"Name": name} | ({"Format/Datatype": "Int8"} if name in quantized else {}) for name in node.input[:2]
            ],
        }
        for node in graph.node
        if node.op_type in _PRODUCTS
    ]
