"""Work that a context has queued: it keeps the shapes and addresses of its moment, and graphs replay it."""

import ctypes
import itertools
import os
import sys
import traceback
from dataclasses import dataclass

import numpy as np

from . import device
from .program import Binding, Program

_launches: dict[int, "Launch"] = {}
"""What the emulator may still call, by the number that it passes. A captured launch stays for as long as its engine."""
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Region:
    """Device memory that a launch needs."""

    name: str
    address: int
    bytes: int


@dataclass(frozen=True)
class Launch:
    """One queued execution. It holds no engine, so that a plan can be freed under it, as with the real one."""

    program: Program | None
    bindings: tuple[Binding, ...]
    activations: Region
    kept: tuple[Region, ...]
    """What engine and context hold."""
    numbers: set[int]
    """Those of all launches of the engine."""
    captured: bool

    def queue(self, stream: int) -> None:
        """Put it into a stream.

        Raises:
            DeviceError: the stream takes no work.
        """
        number = next(_numbers)
        _launches[number] = self
        self.numbers.add(number)
        try:
            device.enqueue(stream, _callback, number)
        except device.DeviceError:
            self._forget(number)
            raise

    def run(self, number: int) -> None:
        """Execute, on the emulator's call."""
        if not self.captured:
            self._forget(number)
        if self.program is None:
            return
        gone = self._gone()
        if gone:
            print(f"emulated TensorRT: {gone} was freed before a launch that uses it ran", file=sys.stderr)
            device.lose(device.ILLEGAL_ADDRESS)
            return
        # Spoils whatever else is kept there.
        ctypes.memset(self.activations.address, 0xFF, self.activations.bytes)
        self.program.run(self.bindings)
        factor = os.environ.get("EMULATED_TENSORRT_FACTOR")
        if factor is not None:
            self._scale_outputs(float(factor))

    def _forget(self, number: int) -> None:
        _launches.pop(number, None)
        self.numbers.discard(number)

    def _gone(self) -> str | None:
        tensors = (Region(item.tensor.name, item.address, item.bytes) for item in self.bindings)
        regions = (*self.kept, self.activations, *tensors)
        return next((item.name for item in regions if not device.is_live(item.address, item.bytes)), None)

    def _scale_outputs(self, factor: float) -> None:
        for item in self.bindings:
            if not item.tensor.is_input and np.dtype(item.tensor.dtype).kind == "f":
                item.array()[...] *= np.asarray(factor, item.tensor.dtype)


def forget_all(numbers: set[int]) -> None:
    """An engine is gone: its launches can no longer run."""
    for number in numbers:
        _launches.pop(number, None)


@device.Callback
def _callback(number: int) -> None:
    try:
        launch = _launches.get(number)
        if launch is None:
            print("emulated TensorRT: an engine was freed before its launch ran", file=sys.stderr)
            device.lose(device.ILLEGAL_ADDRESS)
        else:
            launch.run(number)
    except Exception:  # noqa: BLE001 - C has no exceptions: it is the device that fails
        traceback.print_exc()
        device.lose(device.LAUNCH_FAILED)
