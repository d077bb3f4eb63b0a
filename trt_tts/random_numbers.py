"""Counter-based random numbers that are the same on every platform and release.

Philox4x64 (Salmon et al., 2011) through numpy's bit generator. Only raw 64-bit words are taken: numpy promises their
stream, not that of its distributions.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

# At import: numpy would load it in the midst of the first speech, and swallow a Ctrl-C that comes while it does.
from numpy.random import Philox

F64: TypeAlias = npt.NDArray[np.float64]
_VOICE_STREAM = 1 << 63
"""Keeps the words of random voices apart from those of sampling noise."""


def gumbel_noise(seed: int, segment: int, step: int, count: int) -> npt.NDArray[np.float32]:
    """`count` float32 draws of Gumbel(0, 1), a pure function of (seed, segment, step).

    Adding them to log-probabilities and taking the argmax samples from the distribution (the Gumbel-max trick).
    """
    return (-np.log(-np.log(_uniform(seed, segment, step, count)))).astype(np.float32)


def normal_values(seed: int, count: int) -> F64:
    """`count` float64 draws of N(0, 1), a pure function of `seed` (Box-Muller)."""
    u = _uniform(seed, _VOICE_STREAM, 0, 2 * count)
    values: F64 = np.sqrt(-2 * np.log(u[:count])) * np.cos(2 * np.pi * u[count:])
    return values


def _uniform(seed: int, stream: int, step: int, count: int) -> F64:
    # Lists of Python integers would pass through float64 and lose the low bits of large seeds.
    key, counter = np.array([seed, stream], np.uint64), np.array([0, step, 0, 0], np.uint64)
    words = Philox(key=key, counter=counter).random_raw(count)
    # 52 bits and a half: never 0 or 1, so both logarithms of the Gumbel transform stay finite.
    return ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
