"""The activation memory that all contexts share: they run one after the other."""

from __future__ import annotations

from trt_tts.cuda.device import Device
from trt_tts.gpu.plan import Context


class Workspace:
    """One block, as large as the largest need of the graphs that are loaded all the time."""

    def __init__(self, device: Device, size: int) -> None:
        """Allocate. Raises DeviceMemoryError where it does not fit."""
        self._device, self.size = device, size
        self._address = device.allocate(size)

    def lend(self, context: Context, need: int) -> int:
        """Give a context its activation memory; returns how much had to be allocated because the block is too small."""
        if need <= self.size:
            context.lend(self._address, self.size)
            return 0
        context.lend(self._device.allocate(need), need)
        return need
