"""`Driver` over pycuda."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trt_tts.cuda.codes import error_for
from trt_tts.cuda.driver import Pinned
from trt_tts.cuda.libcuda import GraphCalls, codes_by_text, library, take_from_stack

_NON_BLOCKING = 1


class PycudaDriver(GraphCalls):
    """See `Driver`. pycuda's objects free what they stand for when they are collected; they are kept here by handle."""

    def __init__(self) -> None:
        library()
        import pycuda
        import pycuda.driver

        self._cuda: Any = pycuda.driver
        self._device: Any = None
        self._context: Any = None
        self._memory: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}
        self._streams: dict[int, Any] = {}
        self._events: dict[int, Any] = {}
        self.title = f"pycuda {pycuda.VERSION_TEXT}"

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._cuda.Error as error:
            # The message is all that pycuda keeps: "cuMemAlloc failed: out of memory".
            call, _, text = str(error).partition(" failed: ")
            code = codes_by_text().get(text.split(" - ")[0], 0)
            raise error_for(call, code, text) from error

    def open(self, index: int) -> None:
        """As `Driver.open`."""
        with self._translated():
            self._cuda.init()
            self._device = self._cuda.Device(index)
            self._context = self._device.retain_primary_context()

    def close(self) -> None:
        """As `Driver.close`."""
        context, self._context = self._context, None
        with self._translated():
            # Where it is not current, pycuda releases it on the thread that opened it only.
            context.push()
            try:
                context.detach()
            finally:
                # pycuda counts on the context being gone, as those it makes itself are, and leaves it current.
                take_from_stack(context.handle)

    def push(self) -> None:
        """As `Driver.push`."""
        with self._translated():
            self._context.push()

    def pop(self) -> None:
        """As `Driver.pop`."""
        with self._translated():
            self._context.pop()

    def name(self) -> str:
        """As `Driver.name`."""
        with self._translated():
            return str(self._device.name())

    def compute_capability(self) -> str:
        """As `Driver.compute_capability`."""
        with self._translated():
            major, minor = self._device.compute_capability()
            return f"{major}.{minor}"

    def memory_info(self) -> tuple[int, int]:
        """As `Driver.memory_info`."""
        with self._translated():
            free, total = self._cuda.mem_get_info()
            return free, total

    def allocate(self, size: int) -> int:
        """As `Driver.allocate`."""
        with self._translated():
            memory = self._cuda.mem_alloc(size)
            self._memory[int(memory)] = memory
            return int(memory)

    def free(self, address: int) -> None:
        """As `Driver.free`."""
        with self._translated():
            self._memory.pop(address).free()

    def allocate_pinned(self, size: int) -> Pinned:
        """As `Driver.allocate_pinned`."""
        with self._translated():
            array = self._cuda.pagelocked_empty(size, np.uint8, mem_flags=self._cuda.host_alloc_flags.PORTABLE)
            address = int(array.ctypes.data)
            self._pinned[address] = array.base
            return Pinned(array, address)

    def free_pinned(self, memory: Pinned) -> None:
        """As `Driver.free_pinned`."""
        with self._translated():
            self._pinned.pop(memory.address).free()

    def create_stream(self) -> int:
        """As `Driver.create_stream`."""
        with self._translated():
            stream = self._cuda.Stream(_NON_BLOCKING)
            self._streams[stream.handle] = stream
            return int(stream.handle)

    def destroy_stream(self, stream: int) -> None:
        """As `Driver.destroy_stream`: pycuda's object does when it is dropped."""
        del self._streams[stream]

    def synchronize(self, stream: int) -> None:
        """As `Driver.synchronize`."""
        with self._translated():
            self._streams[stream].synchronize()

    def create_event(self) -> int:
        """As `Driver.create_event`."""
        flags = self._cuda.event_flags
        with self._translated():
            event = self._cuda.Event(flags.BLOCKING_SYNC | flags.DISABLE_TIMING)
            self._events[id(event)] = event
            return id(event)

    def destroy_event(self, event: int) -> None:
        """As `Driver.destroy_event`: pycuda's object does when it is dropped."""
        del self._events[event]

    def record(self, event: int, stream: int) -> None:
        """As `Driver.record`."""
        with self._translated():
            self._events[event].record(self._streams[stream])

    def wait(self, event: int) -> None:
        """As `Driver.wait`."""
        with self._translated():
            self._events[event].synchronize()

    def copy_up(self, target: int, source: Pinned, stream: int) -> None:
        """As `Driver.copy_up`."""
        with self._translated():
            self._cuda.memcpy_htod_async(target, source.array, self._streams[stream])

    def copy_down(self, target: Pinned, source: int, stream: int) -> None:
        """As `Driver.copy_down`."""
        with self._translated():
            self._cuda.memcpy_dtoh_async(target.array, source, self._streams[stream])

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """As `Driver.copy`."""
        with self._translated():
            self._cuda.memcpy_dtod_async(target, source, size, self._streams[stream])

    def copy_strided(
        self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, rows: int, stream: int
    ) -> None:
        """As `Driver.copy_strided`."""
        job = self._cuda.Memcpy2D()
        job.set_src_device(source)
        job.set_dst_device(target)
        job.src_pitch, job.dst_pitch = source_pitch, target_pitch
        job.width_in_bytes, job.height = width, rows
        with self._translated():
            job(self._streams[stream])

    def fill(self, target: int, value: int, size: int, stream: int) -> None:
        """As `Driver.fill`."""
        with self._translated():
            self._cuda.memset_d8_async(target, value, size, self._streams[stream])

    def fill_strided(self, target: int, pitch: int, value: int, width: int, rows: int, stream: int) -> None:
        """As `Driver.fill_strided`."""
        with self._translated():
            self._cuda.memset_d2d8_async(target, pitch, value, width, rows, self._streams[stream])
