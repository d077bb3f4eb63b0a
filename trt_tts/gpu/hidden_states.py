"""The hidden states of the sequences that are being generated, for the codec: they never leave the GPU."""

from __future__ import annotations

from dataclasses import dataclass

from trt_tts.cuda.device import Device
from trt_tts.gpu.layout import hidden_bytes
from trt_tts.manifest import Limits
from trt_tts.model_config import GptConfig


@dataclass(frozen=True)
class States:
    """Where the states of a sequence are: `steps` of them, from the ring's step `first` on, in one row."""

    row: int
    first: int
    steps: int


class HiddenStates:
    """A ring float32 [capacity, rows, E], one entry per step of all rows: a step adds its output with one copy.

    A sequence has at most as many steps as the ring has entries.
    """

    def __init__(self, device: Device, sizes: GptConfig, limits: Limits) -> None:
        """Allocate. Raises DeviceMemoryError where it does not fit."""
        self._device, self.entries = device, limits.capacity
        self._width = 4 * sizes.hidden_size
        self._pitch = limits.max_batch * self._width
        self.bytes = hidden_bytes(sizes, limits)
        self.address = device.allocate(self.bytes)
        self.now = 0
        """Number of the last step."""

    def advance(self, source: int, rows: int) -> None:
        """Begin a step with the output of the first `rows` rows."""
        self.now += 1
        self._device.driver.copy(self._entry(self.now, 0), source, rows * self._width, self._device.stream)

    def add(self, row: int, source: int) -> None:
        """Give `row` a state in the present step: its prefill's."""
        self._device.driver.copy(self._entry(self.now, row), source, self._width, self._device.stream)

    def gather(self, states: States, target: int) -> None:
        """Copy states to `target`, float32 [steps, E]."""
        first, left = states.first, states.steps
        while left:
            count = min(left, self.entries - first % self.entries)
            self._copy(target, self._width, self._entry(first, states.row), self._pitch, count)
            first, left, target = first + count, left - count, target + count * self._width

    def move(self, source: int, target: int) -> None:
        """Copy one row's states over another's."""
        self._copy(self._entry(0, target), self._pitch, self._entry(0, source), self._pitch, self.entries)

    def _copy(self, target: int, target_pitch: int, source: int, source_pitch: int, count: int) -> None:
        self._device.driver.copy_strided(
            target, target_pitch, source, source_pitch, self._width, count, self._device.stream
        )

    def _entry(self, step: int, row: int) -> int:
        return self.address + step % self.entries * self._pitch + row * self._width
