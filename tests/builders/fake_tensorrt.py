"""A stand-in for TensorRT and device memory: "plans" are paths of typed ONNX graphs, ONNX Runtime runs them.

It is strict where the real one is: every tensor must be bound, and a cache must be read and written at one address.
"""

import ctypes
import re
from types import SimpleNamespace

import numpy as np
import onnxruntime

from trt_tts.flavour import Flavour

_TYPES = {"float": np.float32, "float16": np.float16, "int32": np.int32, "bool": np.bool_}


class DeviceArray:
    live = 0

    def __init__(self, shape, dtype):
        self.array = np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 1, dtype)
        self.shape, self.ptr = self.array.shape, self.array.ctypes.data
        DeviceArray.live += 1

    def copy_from(self, source, stream=None):
        assert source.dtype == self.array.dtype
        self.array[...] = source

    def numpy(self):
        return self.array.copy()

    def free(self):
        assert self.array is not None, "freed twice"
        self.array = None
        DeviceArray.live -= 1


class Stream:
    ptr = 0

    def synchronize(self):
        pass

    def free(self):
        pass


class Engine:
    def __init__(self, file, fault):
        self.session, self.fault = onnxruntime.InferenceSession(file), fault
        self.inputs = {item.name: item for item in self.session.get_inputs()}
        self.outputs = {item.name: item for item in self.session.get_outputs()}
        self.names = [*self.inputs, *self.outputs]
        self.num_io_tensors = len(self.names)

    def get_tensor_name(self, index):
        return self.names[index]

    def get_tensor_mode(self, name):
        return "in" if name in self.inputs else "out"

    def get_tensor_dtype(self, name):
        kind = (self.inputs | self.outputs)[name].type
        return _TYPES[re.search(r"\((\w+)\)", kind)[1]]

    def create_execution_context(self):
        return Context(self)


class Context:
    def __init__(self, engine):
        self.engine, self.shapes, self.addresses, self.profile = engine, {}, {}, None

    def set_optimization_profile_async(self, index, stream):
        self.profile = index
        return True

    def set_input_shape(self, name, shape):
        fixed = self.engine.inputs[name].shape
        self.shapes[name] = tuple(shape)
        return all(isinstance(want, str) or want == got for want, got in zip(fixed, shape, strict=True))

    def set_tensor_address(self, name, pointer):
        self.addresses[name] = pointer
        return True

    def get_tensor_shape(self, name):
        return self._results()[name].shape

    def _view(self, name, shape):
        dtype = np.dtype(self.engine.get_tensor_dtype(name))
        count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return np.frombuffer((ctypes.c_char * count).from_address(self.addresses[name]), dtype).reshape(shape)

    def _results(self):
        feed = {name: self._view(name, shape).copy() for name, shape in self.shapes.items()}
        names = list(self.engine.outputs)
        return dict(zip(names, self.engine.session.run(names, feed), strict=True))

    def execute_async_v3(self, stream):
        assert self.profile is not None, "no profile was chosen"
        assert set(self.addresses) == set(self.engine.names), "a tensor is not bound"
        for name, value in self._results().items():
            if re.fullmatch(r"[kv]_\d+_out", name):
                assert self.addresses[name] == self.addresses[name.removesuffix("_out")], "cache not in place"
            if self.engine.fault and value.dtype.kind == "f":
                value = value * self.engine.fault
            self._view(name, value.shape)[...] = value
        return True


def fake_flavour(fault=None):
    """A flavour; `fault` multiplies every float output: 0 makes silence, NaN makes NaN."""
    runtime = SimpleNamespace(deserialize_cuda_engine=lambda plan: Engine(plan.decode(), fault))
    module = SimpleNamespace(
        Logger=type("Logger", (), {"ERROR": 1, "__init__": lambda self, level: None}),
        Runtime=lambda logger: runtime,
        TensorIOMode=SimpleNamespace(INPUT="in"),
        nptype=lambda dtype: dtype,
    )
    return Flavour("tensorrt", "0.fake", module)
