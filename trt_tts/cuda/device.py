"""One GPU with one stream, and everything that was allocated on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from trt_tts.cuda.choice import make_driver
from trt_tts.cuda.driver import Driver, Pinned
from trt_tts.errors import CudaError


class Device:
    """Owns memory, a stream, events and graphs; `close` gives all of it back.

    All methods but `close` and `activated` need the context to be current: call them inside `activated`. Errors are
    those of `Driver`.
    """

    def __init__(self, index: int = 0, driver: Driver | None = None) -> None:
        """Open GPU number `index`.

        Raises:
            MissingDependencyError: neither pycuda nor cuda-bindings, or no NVIDIA driver, is installed.
            CudaError: there is no such GPU, or its memory is full.
        """
        self.driver = driver or make_driver()
        self.index = index
        self._memory: dict[int, int] = {}
        self._pinned: dict[int, Pinned] = {}
        self._events: list[int] = []
        self._graphs: list[int] = []
        self.driver.open(index)
        try:
            with self.activated():
                self.name, self.compute_capability = self.driver.name(), self.driver.compute_capability()
                self.stream = self.driver.create_stream()
        except BaseException:
            self.driver.close()
            raise

    @contextmanager
    def activated(self) -> Iterator[None]:
        """The primary context is current inside, and what was current before is again after."""
        self.driver.push()
        try:
            yield
        finally:
            self.driver.pop()

    @property
    def allocated(self) -> int:
        """Bytes of device memory held through this object."""
        return sum(self._memory.values())

    @property
    def pinned(self) -> int:
        """Bytes of page-locked host memory held."""
        return sum(memory.array.nbytes for memory in self._pinned.values())

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the GPU."""
        return self.driver.memory_info()

    def allocate(self, size: int) -> int:
        """Address of `size` bytes of device memory, 256-aligned; its contents are undefined."""
        address = self.driver.allocate(size)
        self._memory[address] = size
        return address

    def free(self, address: int) -> None:
        """Give back what `allocate` gave."""
        self.driver.free(address)
        del self._memory[address]

    def allocate_pinned(self, size: int) -> Pinned:
        """Page-locked host memory; its contents are undefined."""
        memory = self.driver.allocate_pinned(size)
        self._pinned[memory.address] = memory
        return memory

    def free_pinned(self, memory: Pinned) -> None:
        """Give back what `allocate_pinned` gave."""
        self.driver.free_pinned(memory)
        del self._pinned[memory.address]

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """What was allocated inside is given back when an error leaves it."""
        memory, pinned = set(self._memory), set(self._pinned)
        try:
            yield
        except BaseException:
            for address in self._memory.keys() - memory:
                with suppress(CudaError):
                    self.free(address)
            for address in self._pinned.keys() - pinned:
                with suppress(CudaError):
                    self.free_pinned(self._pinned[address])
            raise

    def create_event(self) -> int:
        """An event; destroyed by `close`."""
        event = self.driver.create_event()
        self._events.append(event)
        return event

    def synchronize(self) -> None:
        """Wait for all that was queued."""
        self.driver.synchronize(self.stream)

    def capture(self, queue: Callable[[], None]) -> int:
        """A graph of the work that `queue` queues; destroyed by `close`.

        Raises:
            CudaError: the work cannot be captured; the stream is usable again.
        """
        try:
            self.driver.begin_capture(self.stream)
            queue()
            graph = self.driver.end_capture(self.stream)
        except BaseException:
            with suppress(CudaError):
                self.driver.destroy_graph(self.driver.end_capture(self.stream))
            raise
        self._graphs.append(graph)
        return graph

    def close(self) -> None:
        """Give everything back. A GPU that no longer answers has lost it already."""
        try:
            with suppress(CudaError), self.activated():
                self._release()
        finally:
            with suppress(CudaError):
                self.driver.close()

    def _release(self) -> None:
        driver = self.driver
        jobs: list[tuple[Callable[[Any], None], Any]] = [
            (driver.synchronize, self.stream),
            *((driver.destroy_graph, graph) for graph in self._graphs),
            *((driver.destroy_event, event) for event in self._events),
            *((driver.free, address) for address in self._memory),
            *((driver.free_pinned, memory) for memory in self._pinned.values()),
            (driver.destroy_stream, self.stream),
        ]
        for release, thing in jobs:
            with suppress(CudaError):
                release(thing)
        self._graphs, self._events, self._memory, self._pinned = [], [], {}, {}
