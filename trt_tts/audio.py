"""The result of a synthesis."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.errors import UsageError
from trt_tts.model_config import SAMPLE_RATE
from trt_tts.sound_file import Pcm16, sound_file

Samples: TypeAlias = npt.NDArray[np.float32]
LEAST_RATE, MOST_RATE = 8_000, 192_000
QUALITY = "VHQ"
"""Of soxr's resampling."""
_FRAME_SECONDS = 0.01


@dataclass(frozen=True, eq=False)
class Audio:
    """Mono speech, and how it came about."""

    samples: Samples
    """float32 [n], nominally within -1 .. 1."""
    seed: int
    """The seed that reproduces it, with the same engine set, runtime release and number of threads."""
    steps: int
    """Generation steps behind it."""
    truncated: bool
    """The step limit ended it before the model did."""
    text: str
    """The text as it was spoken."""
    warnings: tuple[str, ...] = ()
    sample_rate: int = SAMPLE_RATE
    """Hz."""

    @property
    def duration(self) -> float:
        """Seconds."""
        return float(self.samples.size / self.sample_rate)

    def pcm16(self) -> Pcm16:
        """Signed 16-bit samples [n]: saturating, silence for NaN."""
        return pcm16(self.samples)

    def resampled(self, rate: int) -> Self:
        """The same sound at `rate` Hz; NaN becomes silence.

        Raises:
            UsageError: the rate is no whole number from 8000 to 192000.
        """
        check_rate(rate)
        if rate == self.sample_rate:
            return self
        import soxr

        samples = soxr.resample(finite(self.samples), self.sample_rate, rate, quality=QUALITY)
        return replace(self, samples=samples, sample_rate=int(rate))

    def trimmed(self, threshold_db: float = -45.0, keep_seconds: float = 0.05) -> Self:
        """Without the silence at its two ends; what is between stays as it is.

        Args:
            threshold_db: frames of 10 ms are silent whose largest sample is this far below the clip's; -120 to 0.
            keep_seconds: what is kept of the silence on each side; 0 to 10.

        Raises:
            UsageError: an argument is out of range.
        """
        _require("threshold_db", threshold_db, -120, 0)
        _require("keep_seconds", keep_seconds, 0, 10)
        level = np.abs(self.samples)
        peak = level.max(initial=0.0)
        if not 0 < peak < np.inf:  # nothing to hear, or NaN
            return self
        frame = round(_FRAME_SECONDS * self.sample_rate)
        frames = np.maximum.reduceat(level, np.arange(0, len(level), frame))
        (loud,) = np.nonzero(frames >= peak * np.float32(10 ** (threshold_db / 20)))
        keep = round(keep_seconds * self.sample_rate)
        first, last = max(0, int(loud[0]) * frame - keep), (int(loud[-1]) + 1) * frame + keep
        return replace(self, samples=self.samples[first:last])

    def wav(self) -> bytes:
        """The bytes of a 16-bit WAV file."""
        import soundfile

        buffer = io.BytesIO()
        soundfile.write(buffer, self.pcm16(), self.sample_rate, format="WAV", subtype="PCM_16")
        return buffer.getvalue()

    def save(self, path: str | PathLike[str]) -> Path:
        """Write a .wav (16-bit), .flac or .ogg file, whole or not at all; returns its path.

        Raises:
            UsageError: the ending is not one of these, or the folder does not exist.
            TrtTtsError: the file cannot be written.
        """
        file = Path(path)
        with sound_file(file, self.sample_rate) as write:
            write(self.pcm16())
        return file


def pcm16(samples: Samples) -> Pcm16:
    """Signed 16-bit samples [n] of float samples: saturating, silence for NaN."""
    scaled = np.nan_to_num(np.clip(samples, -1, 1)) * 32768
    pcm: Pcm16 = np.minimum(np.rint(scaled), 32767).astype(np.int16)
    return pcm


def finite(samples: Samples) -> Samples:
    """Samples with silence for NaN and full scale for infinity."""
    return np.nan_to_num(samples, nan=0.0, posinf=1.0, neginf=-1.0)


def check_rate(rate: int) -> None:
    """Raises UsageError unless `rate` is a sampling rate that sound can be brought to."""
    if not isinstance(rate, Integral) or isinstance(rate, bool) or not LEAST_RATE <= rate <= MOST_RATE:
        raise UsageError(f"rate is {rate!r}; allowed: whole numbers from {LEAST_RATE} to {MOST_RATE} Hz")


def _require(name: str, value: float, least: float, most: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not least <= value <= most:
        raise UsageError(f"{name} is {value!r}; allowed: {least:g} to {most:g}")
