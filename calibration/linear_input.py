"""What a linear's input looks like, and what INT8 does to the linear's result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.builders.qdq import LARGEST, quantize_weight

from .histogram import Histogram

F32 = npt.NDArray[np.float32]
MOST_ROWS = 256
"""Rows that are kept to measure errors on."""
ROWS_PER_CALL = 4


class LinearInput:
    """A histogram of everything, the reach of each channel, and a few rows as they were.

    Memory does not grow with the dataset.
    """

    def __init__(self, weight: F32) -> None:
        """For a weight [K, N]."""
        self.weight, self.histogram = weight, Histogram()
        self.channels: F32 = np.zeros(len(weight), np.float32)
        """Largest magnitude of each input channel, [K]."""
        self._rows: list[F32] = []

    def add(self, values: npt.NDArray[Any]) -> None:
        """Take in float32 [1, S, K]."""
        self.histogram.add(values)
        self.channels = np.maximum(self.channels, np.abs(values[0]).max(0))
        if len(self._rows) * ROWS_PER_CALL < MOST_ROWS:
            # From the middle of equal parts: the first position is the same token in every sentence, and its values
            # dwarf all others'.
            places = (np.arange(ROWS_PER_CALL) + 0.5) / ROWS_PER_CALL * values.shape[1]
            self._rows.append(values[0, places.astype(int)])

    @property
    def rows(self) -> F32:
        """The kept rows, [n, K]."""
        return np.concatenate(self._rows)


def int8_error(rows: F32, weight: F32, scale: float) -> float:
    """Power of the INT8 result's error over the power of the result.

    Args:
        rows: inputs [n, K].
        weight: [K, N], quantized per output channel.
        scale: of the input: the value that 127 stands for, divided by 127.
    """
    levels, steps = quantize_weight(weight)
    exact = rows @ weight
    rounded = np.clip(np.rint(rows / scale), -LARGEST - 1, LARGEST) * scale
    difference = rounded.astype(np.float32) @ (levels * steps.astype(np.float32)) - exact
    return float(np.square(difference).sum() / max(float(np.square(exact).sum()), 1e-30))
