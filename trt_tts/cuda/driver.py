"""What the runtime needs of the CUDA driver. `pycuda_driver` and `bindings_driver` implement it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False, slots=True)
class Pinned:
    """Page-locked memory of the host, or a part of it."""

    array: npt.NDArray[np.uint8]
    address: int

    def part(self, first: int, size: int) -> Self:
        """`size` bytes from byte `first` on."""
        return type(self)(self.array[first : first + size], self.address + first)


class Driver(Protocol):
    """Thin and stateless but for one primary context. Addresses and handles are numbers; sizes are bytes.

    Copies, fills and graph launches are queued on a stream and return at once. Every method may raise what
    `codes.error_for` makes of the driver's answer: `DeviceMemoryError`, `DeviceLostError`, or `CudaError`.
    """

    title: str
    """Package and release."""

    def open(self, index: int) -> None:
        """Retain the primary context of GPU `index`: the one that torch and TensorRT use as well."""

    def close(self) -> None:
        """Release the context."""

    def push(self) -> None:
        """Make the context current on this thread."""

    def pop(self) -> None:
        """Undo the last `push`."""

    def name(self) -> str:
        """What the GPU is called."""

    def compute_capability(self) -> str:
        """As "7.5"."""

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""

    def allocate(self, size: int) -> int:
        """Device memory."""

    def free(self, address: int) -> None:
        """Give device memory back."""

    def allocate_pinned(self, size: int) -> Pinned:
        """Page-locked host memory."""

    def free_pinned(self, memory: Pinned) -> None:
        """Give page-locked memory back; no view of it may be used again."""

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""

    def destroy_stream(self, stream: int) -> None:
        """Destroy it once its work is done."""

    def synchronize(self, stream: int) -> None:
        """Wait for all that was queued."""

    def create_event(self) -> int:
        """An event to wait for without a busy loop."""

    def destroy_event(self, event: int) -> None:
        """Destroy it."""

    def record(self, event: int, stream: int) -> None:
        """Mark the end of what was queued so far."""

    def wait(self, event: int) -> None:
        """Wait for the last `record`."""

    def copy_up(self, target: int, source: Pinned, stream: int) -> None:
        """Host to device, all of `source`."""

    def copy_down(self, target: Pinned, source: int, stream: int) -> None:
        """Device to host, all of `target`."""

    def copy(self, target: int, source: int, size: int, stream: int) -> None:
        """Device to device."""

    def copy_strided(
        self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, rows: int, stream: int
    ) -> None:
        """`rows` pieces of `width` bytes, device to device; the pitches are the distances between them."""

    def fill(self, target: int, value: int, size: int, stream: int) -> None:
        """Set every byte to `value`."""

    def fill_strided(self, target: int, pitch: int, value: int, width: int, rows: int, stream: int) -> None:
        """`fill` of `rows` pieces of `width` bytes, `pitch` apart."""

    def begin_capture(self, stream: int) -> None:
        """From now on, record what this thread queues instead of running it."""

    def end_capture(self, stream: int) -> int:
        """A launchable graph of what was recorded."""

    def launch(self, graph: int, stream: int) -> None:
        """Queue a graph."""

    def destroy_graph(self, graph: int) -> None:
        """Destroy a launchable graph."""
