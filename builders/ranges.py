"""The range guard's measurement: the largest magnitude of every tensor of an FP32 graph over sample inputs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from .edited_session import load_structure, open_edited, set_outputs

Feed = dict[str, npt.NDArray[Any]]
_FLOAT = onnx.TensorProto.FLOAT
_LARGEST, _SUM = "largest of ", "sum of "


def record(file: Path, feeds: Iterable[Feed]) -> dict[str, float]:
    """Run an FP32 graph and note how large its tensors get.

    Args:
        file: a graph as `export_graph` writes it.
        feeds: inputs by name.

    Returns:
        Tensor name -> largest magnitude; infinite where a value is not finite.
    """
    model = load_structure(file)
    names = _float_tensors(model)
    for name in names:
        model.graph.node.append(onnx.helper.make_node("Abs", [name], [f"abs of {name}"]))
        # ReduceMax drops NaN, which a sum keeps.
        for operator, prefix in (("ReduceMax", _LARGEST), ("ReduceSum", _SUM)):
            node = onnx.helper.make_node(operator, [f"abs of {name}"], [prefix + name], keepdims=0)
            model.graph.node.append(node)
    outputs = [kind + name for kind in (_LARGEST, _SUM) for name in names]
    set_outputs(model, outputs)
    session = open_edited(model, file)
    largest = np.zeros(len(names))
    for feed in feeds:
        found, sums = np.split(np.array(session.run(outputs, feed)), 2)
        largest = np.maximum(largest, np.where(np.isnan(sums) | np.isinf(found), np.inf, found))
    return dict(zip(names, largest.tolist(), strict=True))


def _float_tensors(model: onnx.ModelProto) -> list[str]:
    """Everything a node computes, and the inputs, as far as they are floats."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return sorted({value.name for value in values if value.type.tensor_type.elem_type == _FLOAT})
