"""Cuts a clip into windows for the codec, so that their sound joins without a seam.

A convolution stack looks at a fixed number of steps to both sides of what it makes. A window that has these around the
steps it is decoded for gives the samples that the whole clip would give. The first windows are short, for an early
sound; what is decoded while a clip grows is what would be decoded of the finished clip. With a lookahead shorter than
the receptive field the sound comes sooner, and differs a little from that of the whole clip.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from trt_tts.model_config import CODE_HOP, HOP_LENGTH, ConvStackConfig, VocosConfig

STRIDES = (2, 8, 32, 128, 384)
"""Steps that the first windows are decoded for, as far as a window's length allows; the last goes on."""
_KERNEL_SIDE = 3
"""Frames to each side that a ConvNeXt block's kernel of 7 reads, times the dilation."""
_DILATION = 2
_NARROW_CONVOLUTIONS = 3
"""Of kernel 3 around the stack: one frame to each side."""


@dataclass(frozen=True)
class Window:
    """What to decode, and what to keep of it."""

    first: int
    steps: int
    """The codec gets steps `first` to `first + steps`."""
    skip: int
    keep: int
    """Of its samples, `keep` after the first `skip` are the clip's."""


def receptive_steps(stack: ConvStackConfig, vocos: VocosConfig) -> int:
    """Steps to each side that a step's sound depends on, at most."""
    mel = vocos.feature_extractor
    decoder = _NARROW_CONVOLUTIONS + stack.n_layer * _KERNEL_SIDE * _DILATION
    backbone = _KERNEL_SIDE * (1 + vocos.backbone.num_layers)
    overlap = mel.n_fft // (2 * mel.hop_length)
    return math.ceil((decoder + backbone + overlap) / 2)


class Windows:
    """The windows of one clip, each as soon as all its steps are there."""

    def __init__(self, margin: int, most: int, lookahead: int | None = None) -> None:
        """Windows of at most `most` steps.

        Args:
            margin: steps to each side that are there for show only, 1 or more.
            most: steps of a window, margins included.
            lookahead: most of them after what a window is decoded for; None, or `margin` and more, is exact.

        Raises:
            ValueError: `most` leaves no step between the margins.
        """
        if most <= 2 * margin:
            raise ValueError(f"a window of {most} steps has no room between margins of {margin}")
        self._margin, self._ahead = margin, margin if lookahead is None else min(lookahead, margin)
        self._longest = most - 2 * margin
        self._start = self._count = self._given = 0

    @property
    def first_steps(self) -> int:
        """Steps of a clip that goes on when its first window comes."""
        return min(STRIDES[0], self._longest) + self._ahead

    def take(self, steps: int, ended: bool) -> Iterator[Window]:
        """The next windows of a clip that has `steps` steps by now, or for good where it has `ended`."""
        while self._start < steps:
            end = self._start + min(STRIDES[min(self._count, len(STRIDES) - 1)], self._longest)
            if not ended and steps < end + self._ahead:
                return
            yield self._window(min(end, steps), steps)
            self._start, self._count = min(end, steps), self._count + 1

    def _window(self, end: int, steps: int) -> Window:
        first, last = max(0, self._start - self._margin), min(steps, end + self._ahead)
        # The transform has half a step less at the very end of what it gets.
        stop = min(CODE_HOP * end, CODE_HOP * last - HOP_LENGTH)
        window = Window(first, last - first, self._given - CODE_HOP * first, stop - self._given)
        self._given = stop
        return window
