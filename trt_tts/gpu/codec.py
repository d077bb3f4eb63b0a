"""Runs the codecs over windows, so that a long clip needs no more memory than a short one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trt_tts.audio import Samples
from trt_tts.cuda.device import Device
from trt_tts.cuda.driver import Pinned
from trt_tts.gpu.plan import Context
from trt_tts.windows import Window, windows

_FLOAT = 4


class Codec:
    """Either codec: its input is filled window by window, its sound comes back through pinned memory."""

    def __init__(self, device: Device, context: Context, margin: int, most: int) -> None:
        """Take a context whose windows have at most `most` steps, `margin` of them on each side for show only."""
        self.context = context
        self._device, self._margin, self._most = device, margin, most

    def bind(self, name: str, shape: tuple[int, ...], axis: int, source: int, wav: int, pinned: Pinned) -> None:
        """Fix input and output.

        Args:
            name: of the input.
            shape: of the input; its `axis` counts the steps.
            axis: see above.
            source: address of the input.
            wav: address of the output.
            pinned: room for a window's sound.
        """
        self._name, self._shape, self._axis = name, shape, axis
        self._wav, self._pinned = wav, pinned
        self.context.bind({}, {name: source, "wav": wav})

    def run(self, steps: int, fill: Callable[[Window], None]) -> Samples:
        """float32 [256 * (2T - 1)]; `fill` queues what brings a window's input to its place."""
        parts = []
        for window in windows(steps, self._most, self._margin):
            fill(window)
            shape = (*self._shape[: self._axis], window.steps, *self._shape[self._axis + 1 :])
            self.context.bind({self._name: shape}, {})
            self.context.enqueue()
            parts.append(self._fetch(window))
        return np.concatenate(parts)

    def _fetch(self, window: Window) -> Samples:
        target = self._pinned.part(0, window.keep * _FLOAT)
        self._device.driver.copy_down(target, self._wav + window.skip * _FLOAT, self._device.stream)
        self._device.synchronize()
        return target.array.view(np.float32).copy()
