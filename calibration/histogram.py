"""Streaming histograms of magnitudes, and the thresholds that are read off them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

BINS = 4096
LEVELS = 128
"""Steps of a symmetric 8-bit type on one side of zero."""


class Histogram:
    """Counts of |x| in `BINS` equal bins; the range doubles when a larger value comes, so memory stays fixed."""

    def __init__(self) -> None:
        self.counts: npt.NDArray[np.int64] = np.zeros(BINS, np.int64)
        self.range = 0.0
        self.largest = 0.0

    def add(self, values: npt.NDArray[Any]) -> None:
        """Count the magnitudes of `values`, all finite, of any shape."""
        sizes = np.abs(values).ravel()
        largest = float(sizes.max(initial=0.0))
        self.largest = max(self.largest, largest)
        if self.range == 0.0:
            self.range = largest
        while self.range < largest:
            self.counts = np.concatenate([self.counts.reshape(-1, 2).sum(1), np.zeros(BINS // 2, np.int64)])
            self.range *= 2
        if self.range == 0.0:
            self.counts[0] += sizes.size
            return
        # In double precision: the smallest ranges have no reciprocal in single precision.
        places = np.minimum((sizes.astype(np.float64) / self.range * BINS).astype(np.int64), BINS - 1)
        self.counts += np.bincount(places, minlength=BINS)

    def percentile(self, percent: float) -> float:
        """The magnitude that `percent` of the values do not exceed, to the width of a bin."""
        share = np.cumsum(self.counts) / max(int(self.counts.sum()), 1)
        place = int(np.searchsorted(share, percent / 100))
        return min((place + 1) * self.range / BINS, self.largest)

    def entropy(self) -> float:
        """The threshold with the smallest Kullback-Leibler divergence between the values and their quantized form.

        Migacz, "8-bit Inference with TensorRT" (GTC 2017): what lies beyond a threshold is counted at its edge.
        """
        width = self.range / BINS
        last = int(np.flatnonzero(self.counts)[-1]) + 1 if self.counts.any() else 0
        candidates = range(LEVELS, last + 1, max(1, (last - LEVELS) // 256))
        best = min(candidates, key=self._divergence, default=last)
        return min(best * width, self.largest) if best else self.largest

    def clipped(self, threshold: float) -> float:
        """Share of the values beyond `threshold`, to the width of a bin: those of its own bin count as within."""
        own = int(threshold / self.range * BINS) if self.range else BINS
        return float(self.counts[own + 1 :].sum() / max(int(self.counts.sum()), 1))

    def _divergence(self, stop: int) -> float:
        kept = self.counts[:stop].astype(np.float64)
        reference = kept.copy()
        reference[-1] += self.counts[stop:].sum()
        edges = np.linspace(0, stop, LEVELS + 1).astype(int)
        sums = np.add.reduceat(kept, edges[:-1])
        filled = np.add.reduceat((kept > 0).astype(np.float64), edges[:-1])
        spread = np.repeat(np.divide(sums, filled, out=np.zeros(LEVELS), where=filled > 0), np.diff(edges))
        quantized = np.where(kept > 0, spread, 0.0)
        reference, quantized = reference / reference.sum(), quantized / max(quantized.sum(), 1e-300)
        both = (reference > 0) & (quantized > 0)
        lost = reference[(reference > 0) & (quantized == 0)].sum()
        return float((reference[both] * np.log(reference[both] / quantized[both])).sum() + 40.0 * lost)


PERCENT = 99.99
METHODS: dict[str, Callable[[Histogram], float]] = {
    "percentile": lambda histogram: histogram.percentile(PERCENT),
    "max": lambda histogram: histogram.largest,
    "entropy": Histogram.entropy,
}
"""How the magnitude is chosen that INT8 reaches to."""
