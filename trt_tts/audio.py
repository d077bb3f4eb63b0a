"""The result of a synthesis."""

from __future__ import annotations

import io
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.errors import TrtTtsError, UsageError
from trt_tts.files import new_file
from trt_tts.model_config import SAMPLE_RATE

Samples: TypeAlias = npt.NDArray[np.float32]
FORMATS = {".wav": "WAV", ".flac": "FLAC", ".ogg": "OGG"}


@dataclass(frozen=True, eq=False)
class Audio:
    """Mono speech at 24000 Hz, and how it came about."""

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

    sample_rate = SAMPLE_RATE

    @property
    def duration(self) -> float:
        """Seconds."""
        return float(self.samples.size / SAMPLE_RATE)

    def pcm16(self) -> npt.NDArray[np.int16]:
        """Signed 16-bit samples [n]: saturating, silence for NaN."""
        scaled = np.nan_to_num(np.clip(self.samples, -1, 1)) * 32768
        pcm: npt.NDArray[np.int16] = np.minimum(np.rint(scaled), 32767).astype(np.int16)
        return pcm

    def wav(self) -> bytes:
        """The bytes of a 16-bit WAV file."""
        import soundfile

        buffer = io.BytesIO()
        soundfile.write(buffer, self.pcm16(), SAMPLE_RATE, format="WAV", subtype="PCM_16")
        return buffer.getvalue()

    @staticmethod
    def check_target(file: Path) -> str:
        """The sound format that a file's ending names.

        Raises:
            UsageError: it names none that can be written, or there is no such folder.
        """
        kind = FORMATS.get(file.suffix.lower())
        if kind is None:
            raise UsageError(f"cannot write {file.name!r}: the file's ending must be one of {', '.join(FORMATS)}")
        if file.is_dir() or not file.parent.is_dir():
            raise UsageError(f"cannot write {file}: " + ("it is a folder" if file.is_dir() else "no such folder"))
        return kind

    def save(self, path: str | PathLike[str]) -> Path:
        """Write a .wav (16-bit), .flac or .ogg file, whole or not at all; returns its path.

        Raises:
            UsageError: the ending is not one of these, or the folder does not exist.
            TrtTtsError: the file cannot be written.
        """
        import soundfile

        file = Path(path)
        kind = self.check_target(file)
        try:
            with new_file(file) as work:
                # A FLAC file without a sample cannot be read back.
                pcm = self.pcm16() if self.samples.size or kind != "FLAC" else np.zeros(1, np.int16)
                with soundfile.SoundFile(work, "w", SAMPLE_RATE, 1, format=kind) as sound:
                    # libsndfile 1.2 overflows its stack on a long OGG written at once.
                    for first in range(0, len(pcm), SAMPLE_RATE):
                        sound.write(pcm[first : first + SAMPLE_RATE])
        except (OSError, soundfile.LibsndfileError) as error:
            reason = getattr(error, "strerror", None) or error
            raise TrtTtsError(f"cannot write {file}: {reason}. Is the folder there, and writable?") from error
        return file
