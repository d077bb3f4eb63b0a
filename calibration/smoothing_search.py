"""How strongly to smooth a linear: SmoothQuant's factors, with the strength that leaves the smallest error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trt_tts.builders.qdq import LARGEST

from .histogram import Histogram
from .linear_input import F32, LinearInput, int8_error

STRENGTHS = (0.35, 0.5, 0.65, 0.8, 0.9, 1.0)
"""How much of the input's unevenness moves into the weight."""
FURTHEST = 1024.0
"""No channel is scaled further than this: FP16 has to hold what comes out."""


def smoothing_factors(inputs: LinearInput, strength: float) -> F32:
    """max|X_j| ** strength / max|W_j| ** (1 - strength) for each input channel j, float32 [K], their geometric mean 1.

    A channel that is zero in the input or the weight keeps its size.
    """
    reach, weight = inputs.channels.astype(np.float64), np.abs(inputs.weight).max(1).astype(np.float64)
    used = (reach > 0) & (weight > 0)
    logarithm = np.zeros(len(reach))
    logarithm[used] = strength * np.log(reach[used]) - (1 - strength) * np.log(weight[used])
    logarithm[used] -= logarithm[used].mean() if used.any() else 0.0
    return np.clip(np.exp(logarithm), 1 / FURTHEST, FURTHEST).astype(np.float32)


def best_strength(inputs: LinearInput, threshold: Callable[[Histogram], float]) -> float:
    """The strength with the smallest INT8 error on the kept rows; 0 where none is better than no smoothing.

    Args:
        inputs: of one linear.
        threshold: the magnitude that INT8 reaches to.
    """

    def error(strength: float) -> float:
        factors = smoothing_factors(inputs, strength) if strength else np.float32(1)
        rows, weight = inputs.rows / factors, inputs.weight * np.reshape(factors, (-1, 1))
        histogram = Histogram()
        histogram.add(rows)
        return int8_error(rows, weight, threshold(histogram) / LARGEST)

    return min((0.0, *STRENGTHS), key=error)
