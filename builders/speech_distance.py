"""How different two recordings of the same codes sound: log-mel spectra and mel-cepstral distortion.

Mel-cepstra: Davis and Mermelstein (1980); distortion: Kubichek (1993), over the coefficients 1 to 13. The recordings
run in step, so that no alignment is needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

RATE = 24_000
WINDOW, HOP = 1024, 256
BANDS = 80
COEFFICIENTS = 13
_QUIETEST = 1e-3
"""Amplitude in a band below which differences are not heard; full scale gives some 100."""
F64 = npt.NDArray[np.float64]


def log_mel(samples: npt.NDArray[Any]) -> F64:
    """Natural logarithm of the mel amplitudes, [frames, BANDS], of samples [n] at 24 kHz."""
    padded = np.pad(samples.astype(np.float64), WINDOW // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP]
    amplitude = np.abs(np.fft.rfft(frames * np.hanning(WINDOW), axis=1))
    result: F64 = np.log(np.maximum(amplitude @ _filters(), _QUIETEST))
    return result


def mel_l1(first: F64, second: F64) -> float:
    """Mean absolute difference of two results of `log_mel`, in nepers."""
    return float(np.abs(first - second).mean())


def mel_cepstral_distortion(first: F64, second: F64) -> float:
    """Mean over the frames of two results of `log_mel`, in dB."""
    difference = (first - second) @ _cosines()
    return float((10 / np.log(10) * np.sqrt(2 * np.square(difference).sum(1))).mean())


@cache
def _filters() -> F64:
    """Triangles on the mel scale, [WINDOW // 2 + 1, BANDS]."""
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, WINDOW // 2 + 1)[:, None]
    rising = (bins - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - bins) / (edges[2:] - edges[1:-1])
    return np.maximum(0, np.minimum(rising, falling))


@cache
def _cosines() -> F64:
    """Log-mel bands -> the coefficients 1 to COEFFICIENTS of the log spectrum as a series of cosines."""
    places = (np.arange(BANDS)[:, None] + 0.5) / BANDS
    return 2 / BANDS * np.cos(np.pi * places * np.arange(1, COEFFICIENTS + 1))
