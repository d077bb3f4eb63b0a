"""Runs a graph that was changed in memory, without copying its weights or writing a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads


def load_structure(file: Path) -> onnx.ModelProto:
    """A graph whose weights stay on disk."""
    return onnx.load(file, load_external_data=False)


def open_edited(model: onnx.ModelProto, file: Path) -> Any:
    """An ONNX Runtime session of `model`, which was read from `file` and changed."""
    return open_session(file, usable_threads(), edited=model.SerializeToString())


def set_outputs(model: onnx.ModelProto, names: list[str]) -> None:
    """Let a graph give these float32 tensors and nothing else."""
    del model.graph.output[:]
    kind = onnx.TensorProto.FLOAT
    model.graph.output.extend(onnx.helper.make_tensor_value_info(name, kind, None) for name in names)
