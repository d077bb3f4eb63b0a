"""The range guard's measurement: the largest magnitude of every tensor of an FP32 graph over sample inputs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads

Feed = dict[str, npt.NDArray[Any]]
_FLOAT = onnx.TensorProto.FLOAT
_PREFIX = "largest of "


def record(file: Path, feeds: Iterable[Feed]) -> dict[str, float]:
    """Run an FP32 graph and note how large its tensors get.

    Args:
        file: a graph as `export_graph` writes it; a second one is written beside it for the time of the call.
        feeds: inputs by name.

    Returns:
        Tensor name -> largest magnitude; infinite where a value is not finite.
    """
    model = onnx.load(file, load_external_data=False)
    names = _float_tensors(model)
    for name in names:
        model.graph.node.append(onnx.helper.make_node("Abs", [name], [f"abs of {name}"]))
        model.graph.node.append(
            onnx.helper.make_node("ReduceMax", [f"abs of {name}"], [_PREFIX + name], keepdims=0)
        )  # fmt: skip
    del model.graph.output[:]
    model.graph.output.extend(onnx.helper.make_tensor_value_info(_PREFIX + name, _FLOAT, []) for name in names)
    instrumented = file.with_name(f"{file.stem}.ranges.onnx")
    onnx.save(model, instrumented)
    try:
        return _run(instrumented, names, feeds)
    finally:
        instrumented.unlink()


def _float_tensors(model: onnx.ModelProto) -> list[str]:
    """Everything a node computes, and the inputs, as far as they are floats."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    return sorted({value.name for value in values if value.type.tensor_type.elem_type == _FLOAT})


def _run(file: Path, names: list[str], feeds: Iterable[Feed]) -> dict[str, float]:
    session = open_session(file, usable_threads())
    largest = np.zeros(len(names))
    for feed in feeds:
        found = np.array(session.run([_PREFIX + name for name in names], feed), dtype=np.float64)
        largest = np.maximum(largest, np.where(np.isfinite(found), found, np.inf))
    return dict(zip(names, largest.tolist(), strict=True))
