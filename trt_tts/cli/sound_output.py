"""Where `say` puts the sound, and what it tells about it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from trt_tts.audio import Audio, Samples, check_rate
from trt_tts.errors import UsageError
from trt_tts.model_config import SAMPLE_RATE
from trt_tts.sinks import Sink, device_sink, file_sink, load_sounddevice, pipe_sink, resampling, write_all
from trt_tts.sound_file import check_target

FORMATS = ("wav", "raw")
STANDARD_OUTPUT = "-"


@dataclass(frozen=True)
class SoundOutput:
    """Where the sound goes.

    Raises:
        UsageError, MissingDependencyError: the sound cannot go there; said before any work is done.
    """

    target: str | None
    """A file, "-" for standard output, or None."""
    audio_format: str = "wav"
    """On standard output."""
    rate: int = SAMPLE_RATE
    play: bool = False

    def __post_init__(self) -> None:
        check_rate(self.rate)
        if self.audio_format not in FORMATS:
            raise UsageError(f"format is {self.audio_format!r}; allowed: {', '.join(FORMATS)}")
        if self.target == STANDARD_OUTPUT:
            _standard_output()
        elif self.target is not None:
            check_target(Path(self.target), self.rate)
        if self.play:
            load_sounddevice()

    @contextmanager
    def open(self) -> Iterator[Sink]:
        """A sink for sound at 24000 Hz that comes in chunks. Errors as the sinks'."""
        with ExitStack() as stack:
            sinks: list[Sink] = []
            if self.play:
                sinks.append(stack.enter_context(device_sink(self.rate)))
            if self.target == STANDARD_OUTPUT:
                header = self.audio_format == "wav"
                sinks.append(stack.enter_context(pipe_sink(_standard_output(), self.rate, header)))
            elif self.target is not None:
                sinks.append(stack.enter_context(file_sink(Path(self.target), self.rate)))

            def write(samples: Samples) -> None:
                for sink in sinks:
                    sink(samples)

            yield stack.enter_context(resampling(write, self.rate))

    def save(self, audio: Audio) -> None:
        """Write the whole sound at once.

        Raises:
            TrtTtsError: it cannot be written.
        """
        sound = audio.resampled(self.rate)
        if self.target == STANDARD_OUTPUT:
            data = sound.wav() if self.audio_format == "wav" else sound.pcm16().astype("<i2").tobytes()
            write_all(_standard_output(), data)
        elif self.target is not None:
            sound.save(self.target)


def _standard_output() -> BinaryIO:
    if sys.stdout is None:
        raise UsageError("standard output is closed; name a file with -o")
    if sys.stdout.isatty():
        raise UsageError(
            "binary sound to a terminal; redirect it (-o - > speech.wav), pipe it to a player, or name a file with -o"
        )
    return sys.stdout.buffer


@dataclass
class Spoken:
    """What was spoken so far."""

    started: float = field(default_factory=time.perf_counter)
    first_seconds: float | None = None
    """Until the first sound was there."""
    seconds: float = 0.0
    """Until the last was."""
    duration: float = 0.0
    seed: int = 0
    texts: list[str] = field(default_factory=list)
    """One for each part of the text."""
    warnings: list[str] = field(default_factory=list)

    def add(self, audio: Audio) -> None:
        """Count a chunk, or all, of the sound."""
        self.seconds = time.perf_counter() - self.started
        if self.first_seconds is None:
            self.first_seconds = self.seconds
        self.duration += audio.duration
        self.seed = audio.seed
        self.warnings += audio.warnings
        # The chunks of a segment share its text; the next may read the same.
        if not self.texts or self.texts[-1] is not audio.text:
            self.texts.append(audio.text)

    def summary(self, streamed: bool) -> str:
        """A line for the person at the terminal."""
        first = f", first sound after {self.first_seconds:.2f} s" if streamed and self.first_seconds is not None else ""
        rtf = self.seconds / self.duration if self.duration else 0.0
        return f"{self.duration:.2f} s of speech in {self.seconds:.2f} s (RTF {rtf:.2f}){first}, seed {self.seed}"
