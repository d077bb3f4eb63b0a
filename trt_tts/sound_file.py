"""Sound files that grow and then appear whole: .wav, .flac, .ogg."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.errors import TrtTtsError, UsageError
from trt_tts.files import new_file

Pcm16: TypeAlias = npt.NDArray[np.int16]
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}
_MOST_AT_ONCE = 24_000
"""libsndfile 1.2 overflows its stack on a long OGG written at once."""
_FLAC_RATE = 65_535
"""Above it FLAC's header holds multiples of 10 only."""


def check_target(file: Path, rate: int) -> str:
    """The sound format that a file's ending names.

    Raises:
        UsageError: it names none that can be written, it cannot hold this sampling rate, or there is no such folder.
    """
    kind = FORMATS.get(file.suffix.lower())
    if kind is None:
        raise UsageError(f"cannot write {file.name!r}: the file's ending must be one of {', '.join(FORMATS)}")
    if kind == "FLAC" and rate > _FLAC_RATE and rate % 10:
        raise UsageError(f"a .flac file holds no rate of {rate}; above {_FLAC_RATE} allowed: multiples of 10")
    if file.is_dir() or not file.parent.is_dir():
        raise UsageError(f"cannot write {file}: " + ("it is a folder" if file.is_dir() else "no such folder"))
    return kind


def native_path(file: Path) -> Path | bytes:
    """A path as soundfile takes every one: on Linux also those that are no UTF-8."""
    return os.fsencode(file) if os.name == "posix" else file


@contextmanager
def sound_file(file: Path, rate: int) -> Iterator[Callable[[Pcm16], None]]:
    """Yield a function that appends int16 samples [n]. The file is there when the block has ended without an error, and
    only then; until then what is written lies beside it under another name.

    Raises:
        UsageError: as `check_target`.
        TrtTtsError: it cannot be written.
    """
    import soundfile

    kind = check_target(file, rate)
    try:
        with new_file(file) as work, soundfile.SoundFile(native_path(work), "w", rate, 1, format=kind) as sound:
            count = 0

            def write(pcm: Pcm16) -> None:
                nonlocal count
                for first in range(0, len(pcm), _MOST_AT_ONCE):
                    sound.write(pcm[first : first + _MOST_AT_ONCE])
                count += len(pcm)

            yield write
            if not count and kind == "FLAC":  # without a sample it could not be read back
                write(np.zeros(1, np.int16))
    except (OSError, soundfile.LibsndfileError) as error:
        reason = getattr(error, "strerror", None) or error
        raise TrtTtsError(f"cannot write {file}: {reason}. Is the folder there, and writable?") from error
