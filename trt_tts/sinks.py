"""Where sound goes as it comes: a pipe, a growing file, a sound device. A sink is a function that takes samples.

Each is a context: at its end, and only where no error ended it, what is missing is written and a file appears.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from trt_tts.audio import QUALITY, Samples, check_rate, finite, pcm16
from trt_tts.errors import MissingDependencyError, TrtTtsError
from trt_tts.model_config import SAMPLE_RATE
from trt_tts.sound_file import sound_file

Sink: TypeAlias = Callable[[Samples], None]
"""Takes float32 samples [n]."""
_UNKNOWN_SIZE = 0xFFFFFFFF
"""In a WAV header: until the end of the pipe."""
_BYTES = 2
"""Of a PCM16 sample."""


def wav_header(rate: int) -> bytes:
    """The 44 bytes before 16-bit mono samples at `rate` Hz whose number is not known yet."""
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, rate * _BYTES, _BYTES, 8 * _BYTES)
    head = struct.pack("<4sI4s", b"RIFF", _UNKNOWN_SIZE, b"WAVE")
    return head + form + struct.pack("<4sI", b"data", _UNKNOWN_SIZE)


@contextmanager
def pipe_sink(pipe: BinaryIO, rate: int, header: bool) -> Iterator[Sink]:
    """16-bit little-endian samples, after one WAV `header` or none; each chunk is flushed. The pipe stays open.

    Raises:
        as `write_all`.
    """
    if header:
        write_all(pipe, wav_header(rate))
    yield lambda samples: write_all(pipe, pcm16(samples).astype("<i2").tobytes())


def write_all(pipe: BinaryIO, data: bytes) -> None:
    """Write and flush.

    Raises:
        BrokenPipeError: whoever reads it has gone.
        TrtTtsError: it fails otherwise, for example because the disk is full.
    """
    try:
        pipe.write(data)
        pipe.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise TrtTtsError(f"cannot write the sound: {error.strerror or error}") from error


@contextmanager
def file_sink(file: Path, rate: int) -> Iterator[Sink]:
    """A .wav, .flac or .ogg file that appears when it is whole. Errors as `trt_tts.sound_file.sound_file`."""
    with sound_file(file, rate) as append:
        yield lambda samples: append(pcm16(samples))


@contextmanager
def device_sink(rate: int) -> Iterator[Sink]:
    """The default sound device. Writing waits while enough sound is queued; the end waits until all was heard.

    Raises:
        MissingDependencyError: as `load_sounddevice`.
        TrtTtsError: there is no sound device, it fails, or it does not know the rate.
    """
    sounddevice = load_sounddevice()
    try:
        stream = sounddevice.OutputStream(samplerate=rate, channels=1, dtype="int16")
        try:
            stream.start()
            yield lambda samples: stream.write(pcm16(samples)[:, None])
            stream.stop()
        except sounddevice.PortAudioError:
            raise
        except BaseException:
            stream.abort()
            raise
        finally:
            stream.close()
    except sounddevice.PortAudioError as error:
        raise TrtTtsError(
            f"the sound device cannot play at {rate} Hz: {error}. python -m sounddevice lists the devices; try "
            f"--rate 48000, or write a file with -o"
        ) from error


def load_sounddevice() -> Any:
    """The package that plays sound.

    Raises:
        MissingDependencyError: it, or the PortAudio library, is not installed.
    """
    try:
        import sounddevice
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            'playing sound needs sounddevice: pip install "trt-tts[play]". Or write a file with -o'
        ) from error
    except OSError as error:  # its import loads the library
        raise MissingDependencyError(
            f"playing sound needs the PortAudio library ({error}). On Debian or Ubuntu: sudo apt install "
            f"libportaudio2. Or write a file with -o"
        ) from error
    return sounddevice


@contextmanager
def resampling(sink: Sink, rate: int) -> Iterator[Sink]:
    """Hands on at `rate` Hz what comes at 24000: chunk by chunk the samples of `Audio.resampled` of the whole.

    Raises:
        UsageError: the rate is no whole number from 8000 to 192000.
    """
    check_rate(rate)
    if rate == SAMPLE_RATE:
        yield sink
        return
    import soxr

    stream = soxr.ResampleStream(SAMPLE_RATE, rate, 1, dtype="float32", quality=QUALITY)

    def write(samples: Samples) -> None:
        found = stream.resample_chunk(finite(samples))
        if len(found):
            sink(found)

    yield write
    sink(stream.resample_chunk(np.zeros(0, np.float32), last=True))
