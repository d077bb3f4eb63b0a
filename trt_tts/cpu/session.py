"""ONNX Runtime sessions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from trt_tts.errors import EngineSetError, MissingDependencyError

if TYPE_CHECKING:
    import onnxruntime

MINIMUM_RUNTIME = "1.25.0"
"""The first ONNX Runtime release that runs opset 24's TensorScatter on the CPU."""


def open_session(file: Path, threads: int, edited: bytes | None = None) -> onnxruntime.InferenceSession:
    """Load one graph for the CPU.

    Args:
        file: the .onnx file.
        threads: to compute with.
        edited: what to load in its place: a graph whose weights are those beside `file`.

    Raises:
        EngineSetError: ONNX Runtime refuses it.
        MissingDependencyError: ONNX Runtime cannot be imported.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingDependencyError(
            f"onnxruntime cannot be imported ({error}). Install it with: pip install onnxruntime. "
            f"On Windows it needs Microsoft's Visual C++ runtime as well"
        ) from error

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # The arena keeps the largest activation ever needed, and memory patterns pile up, one per input shape: the codec
    # sees a new shape at nearly every call. Without either memory stays flat, and speed is the same.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    if edited is not None:
        folder = str(file.absolute().parent)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    try:
        return onnxruntime.InferenceSession(edited or file, options, providers=["CPUExecutionProvider"])
    # ONNX Runtime's errors have no common base class below Exception.
    except Exception as error:
        raise EngineSetError(
            f"ONNX Runtime {onnxruntime.__version__} cannot load {file}: {error}. "
            f"Needed: {MINIMUM_RUNTIME} or newer; update with: pip install -U onnxruntime"
        ) from error
