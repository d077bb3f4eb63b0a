"""`Driver` over NVIDIA's cuda-bindings."""

from __future__ import annotations

import ctypes
import importlib.metadata
from typing import Any

import numpy as np

from trt_tts.cuda.driver import Pinned
from trt_tts.cuda.libcuda import GraphCalls, check, library

_NON_BLOCKING = 1
_EVENT_FLAGS = 1 | 2
"""Blocking wait, no timing."""
_PORTABLE = 1
_DEVICE_MEMORY = 2
_MAJOR, _MINOR = 75, 76


class BindingsDriver(GraphCalls):
    """See `Driver`."""

    def __init__(self) -> None:
        library()  # cuda-bindings would crash later, without a word about the driver
        from cuda.bindings import driver

        self._cuda: Any = driver
        self._device: Any = None
        self._context: Any = None
        self.title = f"cuda-bindings {importlib.metadata.version('cuda-bindings')}"

    def _call(self, name: str, *arguments: Any) -> Any:
        code, *values = getattr(self._cuda, name)(*arguments)
        if code:
            check(name, int(code))
        return values[0] if len(values) == 1 else values

    def open(self, index: int) -> None:
        """As `Driver.open`."""
        self._call("cuInit", 0)
        self._device = self._call("cuDeviceGet", index)
        self._context = self._call("cuDevicePrimaryCtxRetain", self._device)

    def close(self) -> None:
        """As `Driver.close`."""
        self._call("cuDevicePrimaryCtxRelease", self._device)

    def push(self) -> None:
        """As `Driver.push`."""
        self._call("cuCtxPushCurrent", self._context)

    def pop(self) -> None:
        """As `Driver.pop`."""
        self._call("cuCtxPopCurrent")

    def name(self) -> str:
        """As `Driver.name`."""
        text: bytes = self._call("cuDeviceGetName", 256, self._device)
        return text.split(b"\0")[0].decode()

    def compute_capability(self) -> str:
        """As `Driver.compute_capability`."""
        attribute = self._cuda.CUdevice_attribute
        major, minor = (self._call("cuDeviceGetAttribute", attribute(a), self._device) for a in (_MAJOR, _MINOR))
        return f"{major}.{minor}"

    def memory_info(self) -> tuple[int, int]:
        """As `Driver.memory_info`."""
        free, total = self._call("cuMemGetInfo")
        return free, total

    def allocate(self, size: int) -> int:
        """As `Driver.allocate`."""
        return int(self._call("cuMemAlloc", size))

    def free(self, address: int) -> None:
        """As `Driver.free`."""
        self._call("cuMemFree", address)

    def allocate_pinned(self, size: int) -> Pinned:
        """As `Driver.allocate_pinned`."""
        address = int(self._call("cuMemHostAlloc", size, _PORTABLE))
        memory = (ctypes.c_uint8 * size).from_address(address)
        return Pinned(np.ctypeslib.as_array(memory), address)

    def free_pinned(self, memory: Pinned) -> None:
        """As `Driver.free_pinned`."""
        self._call("cuMemFreeHost", memory.address)

    def create_stream(self) -> int:
        """As `Driver.create_stream`."""
        return int(self._call("cuStreamCreate", _NON_BLOCKING))

    def destroy_stream(self, stream: int) -> None:
        """As `Driver.destroy_stream`."""
        self._call("cuStreamDestroy", stream)

    def synchronize(self, stream: int) -> None:
        """As `Driver.synchronize`."""
        self._call("cuStreamSynchronize", stream)

    def create_event(self) -> int:
        """As `Driver.create_event`."""
        return int(self._call("cuEventCreate", _EVENT_FLAGS))

    def destroy_event(self, event: int) -> None:
        """As `Driver.destroy_event`."""
        self._call("cuEventDestroy", event)

    def record(self, event: int, stream: int) -> None:
        """As `Driver.record`."""
        self._call("cuEventRecord", event, stream)

    def wait(self, event: int) -> None:
        """As `Driver.wait`."""
        self._call("cuEventSynchronize", event)

    def copy_up(self, target: int, source: Pinned, stream: int) -> None:
        """As `Driver.copy_up`."""
        self._call("cuMemcpyHtoDAsync", target, source.address, source.array.nbytes, stream)

    def copy_down(self, target: Pinned, source: int, stream: int) -> None:
        """As `Driver.copy_down`."""
        self._call("cuMemcpyDtoHAsync", target.address, source, target.array.nbytes, stream)

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """As `Driver.copy`."""
        self._call("cuMemcpyDtoDAsync", target, source, size, stream)

    def copy_strided(
        self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, rows: int, stream: int
    ) -> None:
        """As `Driver.copy_strided`."""
        job = self._cuda.CUDA_MEMCPY2D()
        job.srcMemoryType = job.dstMemoryType = self._cuda.CUmemorytype(_DEVICE_MEMORY)
        job.srcDevice, job.dstDevice = source, target
        job.srcPitch, job.dstPitch = source_pitch, target_pitch
        job.WidthInBytes, job.Height = width, rows
        self._call("cuMemcpy2DAsync", job, stream)

    def fill(self, target: int, value: int, size: int, stream: int) -> None:
        """As `Driver.fill`."""
        self._call("cuMemsetD8Async", target, value, size, stream)

    def fill_strided(self, target: int, pitch: int, value: int, width: int, rows: int, stream: int) -> None:
        """As `Driver.fill_strided`."""
        self._call("cuMemsetD2D8Async", target, pitch, value, width, rows, stream)
