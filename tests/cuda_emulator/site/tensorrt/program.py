"""Runs a plan's graph with ONNX Runtime, on device memory in place."""

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

from .plan import Tensor
from .shapes import Shape


@dataclass(frozen=True)
class Binding:
    """A tensor's shape and place in one launch."""

    tensor: Tensor
    shape: Shape
    address: int

    @property
    def bytes(self) -> int:
        return self.tensor.nbytes(self.shape)

    @property
    def end(self) -> int:
        return self.address + self.bytes

    def array(self) -> np.ndarray:
        """The memory itself."""
        memory = (ctypes.c_char * self.bytes).from_address(self.address)
        return np.frombuffer(memory, self.tensor.dtype).reshape(self.shape)


class Program:
    """One graph, which all contexts of an engine run in one pool of threads."""

    def __init__(self, model: bytes) -> None:
        self._model, self._session = model, None
        self._opening = threading.Lock()

    def run(self, bindings: Sequence[Binding]) -> None:
        """Read the inputs from device memory and write the outputs there."""
        session = self._open()
        bound = session.io_binding()
        for item in bindings:
            bind = bound.bind_input if item.tensor.is_input else bound.bind_output
            bind(item.tensor.name, "cpu", 0, np.dtype(item.tensor.dtype).type, item.shape, item.address)
        session.run_with_iobinding(bound)
        outputs = [item for item in bindings if not item.tensor.is_input]
        for item, value in zip(outputs, bound.get_outputs(), strict=True):
            if value.data_ptr() != item.address:
                item.array()[...] = value.numpy()

    def _open(self) -> onnxruntime.InferenceSession:
        """Opened by the first launch: who only looks at a plan need not wait."""
        with self._opening:
            if self._session is None:
                self._session = onnxruntime.InferenceSession(self._model, _options())
                self._model = b""
            return self._session


def _options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = 2, 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Memory stays flat over many shapes without these.
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options
