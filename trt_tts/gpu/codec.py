"""Runs the codecs on windows, so that a long clip needs no more memory than a short one."""

from __future__ import annotations

import numpy as np

from trt_tts.audio import Samples
from trt_tts.cuda.device import Device
from trt_tts.cuda.driver import Pinned
from trt_tts.gpu.plan import Context
from trt_tts.windows import Window

_FLOAT = 4


class Codec:
    """Either codec."""

    def __init__(self, device: Device, context: Context) -> None:
        """Take a context of the codec's only profile."""
        self.context, self._device = context, device

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

    def run(self, window: Window) -> Samples:
        """float32 [window.keep], from an input that is queued to be in its place."""
        shape = (*self._shape[: self._axis], window.steps, *self._shape[self._axis + 1 :])
        self.context.bind({self._name: shape}, {})
        self.context.enqueue()
        target = self._pinned.part(0, window.keep * _FLOAT)
        self._device.driver.copy_down(target, self._wav + window.skip * _FLOAT, self._device.stream)
        self._device.synchronize()
        return target.array.view(np.float32).copy()
