"""A recording as the voice encoder takes it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.audio import Samples
from trt_tts.errors import UsageError, VoiceError
from trt_tts.model_config import SAMPLE_RATE
from trt_tts.options import require_whole
from trt_tts.sound_file import native_path

logger = logging.getLogger("trt_tts")
FEWEST_SECONDS = 1.0
MOST_SECONDS = 20.0
"""Engine sets are built for as much."""
LOWEST_RATE, HIGHEST_RATE = 8_000, 192_000
MOST_CHANNELS = 8
QUIETEST = -50.0
"""dB of the mean power against full scale; what is below holds no speech."""
_FULL_SCALE = 32767 / 32768
LOUDEST = 8.0
"""Floats beyond it are integers' values that nobody scaled; music software goes a little beyond 1."""
MOST_CLIPPED = 0.001
"""Share of samples at full scale above which a recording is reported as clipped."""


def read_recording(file: Path) -> tuple[npt.NDArray[np.float32], int]:
    """Samples, float32 [n, channels], and rate of a sound file.

    Raises:
        UsageError: there is no such file, or it is no sound file.
        VoiceError: it is longer than a voice is taken from.
    """
    import soundfile

    if not file.is_file():
        raise UsageError(f"there is no recording {file}")
    try:
        with soundfile.SoundFile(native_path(file)) as sound:
            _require_length(len(sound) / sound.samplerate)
            return sound.read(dtype="float32", always_2d=True), sound.samplerate
    except (OSError, soundfile.LibsndfileError) as error:
        raise UsageError(f"{file} is no readable sound file ({error}); allowed: .wav, .flac, .ogg, .mp3") from error


def prepare_recording(samples: Any, rate: int) -> Samples:
    """One channel at 24000 Hz, float32 [n], the level as it was.

    Args:
        samples: [n] or [n, channels], floats nominally within -1 .. 1 or signed 16- or 32-bit integers.
        rate: samples per second.

    Raises:
        UsageError: `samples` or `rate` is of another kind, or floats have the scale of integers.
        VoiceError: too short, too long, silent, or not finite.
    """
    require_whole("rate", rate, LOWEST_RATE, HIGHEST_RATE)
    mono = _mono(samples)
    _require_length(len(mono) / rate)
    _require_speech(mono)
    if rate == SAMPLE_RATE:
        return mono
    import soxr

    converted: Samples = soxr.resample(mono, rate, SAMPLE_RATE, "HQ")
    return converted[: round(MOST_SECONDS * SAMPLE_RATE)]


def _require_length(seconds: float) -> None:
    if not FEWEST_SECONDS <= seconds <= MOST_SECONDS:
        raise VoiceError(
            f"the recording lasts {seconds:.2f} s; a voice is taken from {FEWEST_SECONDS:g} to {MOST_SECONDS:g} s. "
            f"Cut out a few sentences of clear speech"
        )


def _require_speech(mono: Samples) -> None:
    if not np.isfinite(mono).all():
        raise VoiceError("the recording holds NaN or infinite samples")
    size = np.abs(mono)
    if size.max() > LOUDEST:
        raise UsageError(
            f"samples reach {size.max():g}; allowed: floats within -1 .. 1. Divide 16-bit values by 32768, "
            f"or give them as int16"
        )
    clipped = float((size >= _FULL_SCALE).mean())
    if clipped > MOST_CLIPPED:
        logger.warning("%.1f %% of the recording is at full scale: it is clipped", 100 * clipped)
    level = 10 * np.log10(max(float(np.square(mono, dtype=np.float64).mean()), 1e-20))
    if level < QUIETEST:
        raise VoiceError(f"the recording is silent: {level:.0f} dB; speech is above {QUIETEST:.0f} dB")


def _mono(samples: Any) -> Samples:
    try:
        value = np.asarray(samples)
    except ValueError:
        value = np.zeros((0, 0, 0))
    if value.ndim not in (1, 2) or (value.ndim == 2 and not 1 <= value.shape[1] <= MOST_CHANNELS):
        raise UsageError(
            f"samples have shape {value.shape}; allowed: [n], or [n, channels] with at most {MOST_CHANNELS} channels"
        )
    if value.dtype in (np.int16, np.int32):
        value = value / -float(np.iinfo(value.dtype).min)
    elif value.dtype.kind != "f":
        raise UsageError(f"samples are {value.dtype}; allowed: floats within -1 .. 1, int16, int32")
    if value.ndim == 2:
        value = value.mean(axis=1)
    return np.ascontiguousarray(value, np.float32)
