"""What a linear's input looks like, and what INT8 does to the linear's result."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.builders.qdq import LARGEST, quantize_weight

from .histogram import Histogram

MOST_ROWS = 128
"""Rows that are kept to measure the error on."""
ROWS_PER_CALL = 4


class LinearInput:
    """A histogram of everything, and a few rows as they were; memory does not grow with the dataset."""

    def __init__(self, weight: npt.NDArray[np.float32]) -> None:
        self.weight, self.histogram = weight, Histogram()
        self.rows: list[npt.NDArray[np.float32]] = []

    def add(self, values: npt.NDArray[Any]) -> None:
        """Take in float32 [1, S, K]."""
        self.histogram.add(values)
        if len(self.rows) * ROWS_PER_CALL < MOST_ROWS:
            places = np.linspace(0, values.shape[1] - 1, ROWS_PER_CALL).astype(int)
            self.rows.append(values[0, places])

    def error(self, scale: float) -> float:
        """Power of the INT8 result's error over the power of the result, with `scale` for the input."""
        x = np.concatenate(self.rows)
        levels, steps = quantize_weight(self.weight)
        exact = x @ self.weight
        rounded = np.clip(np.rint(x / scale), -LARGEST - 1, LARGEST) * scale
        difference = rounded.astype(np.float32) @ (levels * steps.astype(np.float32)) - exact
        return float(np.square(difference).sum() / max(float(np.square(exact).sum()), 1e-30))
