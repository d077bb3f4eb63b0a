"""Cuts a clip into windows for the codec, so that their sound joins without a seam.

A convolution stack looks at a fixed number of steps to both sides of what it makes. A window that has these around the
steps it is decoded for gives the samples that the whole clip would give.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from trt_tts.model_config import CODE_HOP, HOP_LENGTH, ConvStackConfig, VocosConfig

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


def windows(steps: int, most: int, margin: int) -> Iterator[Window]:
    """The windows of a clip of `steps` steps: at most `most` steps each, `margin` (1 or more) of them on each side for
    show only.

    Raises:
        ValueError: `most` leaves no step between the margins.
    """
    if steps <= most:
        yield Window(0, steps, 0, CODE_HOP * steps - HOP_LENGTH)
        return
    stride = most - 2 * margin
    if stride < 1:
        raise ValueError(f"a window of {most} steps has no room between margins of {margin}")
    for start in range(0, steps, stride):
        end = min(start + stride, steps)
        first, last = max(0, start - margin), min(steps, end + margin)
        stop = CODE_HOP * end if end < steps else CODE_HOP * steps - HOP_LENGTH
        yield Window(first, last - first, CODE_HOP * (start - first), stop - CODE_HOP * start)
