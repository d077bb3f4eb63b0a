"""The key-value caches: one allocation that the plan reads and writes in place."""

from __future__ import annotations

from trt_tts.cuda.device import Device
from trt_tts.errors import EngineSetError
from trt_tts.gpu.layout import ALIGNMENT, cache_bytes
from trt_tts.manifest import Limits
from trt_tts.model_config import GptConfig


class Caches:
    """[2 x layers, rows, H, C, D]: rows of a layer's keys or values are `pitch` bytes apart from those of the next."""

    def __init__(self, device: Device, sizes: GptConfig, limits: Limits, item_size: int) -> None:
        """Allocate, and clear: idle rows run along before anything was written.

        Raises:
            DeviceMemoryError: it does not fit.
            EngineSetError: a row would not be aligned.
        """
        self._device, self.capacity = device, limits.capacity
        self.names = [f"{kind}_{i}" for i in range(sizes.num_hidden_layers) for kind in "kv"]
        self.row_bytes = limits.capacity * sizes.hidden_size * item_size
        self.pitch = limits.max_batch * self.row_bytes
        self.bytes = cache_bytes(sizes, limits, item_size)
        if self.row_bytes % ALIGNMENT:
            raise EngineSetError(
                f"a cache of {limits.capacity} positions is not a multiple of {ALIGNMENT} bytes. Build the set again"
            )
        self.address = device.allocate(self.bytes)
        self.clear()

    def addresses(self, row: int) -> dict[str, int]:
        """Of every cache from `row` on; each is input and output."""
        found = {}
        for i, name in enumerate(self.names):
            found[name] = found[f"{name}_out"] = self.address + i * self.pitch + row * self.row_bytes
        return found

    def clear(self) -> None:
        """Zero everything."""
        self._device.driver.fill(self.address, 0, self.bytes, self._device.stream)

    def clear_row(self, row: int) -> None:
        """Zero one row."""
        first = self.address + row * self.row_bytes
        self._device.driver.fill_strided(first, self.pitch, 0, self.row_bytes, len(self.names), self._device.stream)

    def move(self, source: int, target: int) -> None:
        """Copy one row over another."""
        first, second = (self.address + row * self.row_bytes for row in (target, source))
        self._device.driver.copy_strided(
            first, self.pitch, second, self.pitch, self.row_bytes, len(self.names), self._device.stream
        )
