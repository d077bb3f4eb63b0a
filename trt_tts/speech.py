"""Joins what was generated of one text, segment by segment, into its audio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_tts.audio import Audio, Samples
from trt_tts.errors import GenerationError
from trt_tts.generation import Generated, Request
from trt_tts.model_config import SAMPLE_RATE, STEPS_PER_SECOND
from trt_tts.text.segments import Segment

FEWEST_STEPS = 6
FEWEST_STEPS_PER_LETTER = 0.6
"""Speech of fewer steps than these is reported; the demo voice takes about three steps per letter."""
_SHOWN = 40


@dataclass(frozen=True, eq=False)
class Job:
    """One text, ready for the decode loop."""

    text: str
    """As it is spoken."""
    warnings: tuple[str, ...]
    seed: int
    segments: tuple[Segment, ...]
    requests: tuple[Request, ...]
    """One per segment."""


class Speech:
    """Takes the segments of a job in any order."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._samples: list[Samples | None] = [None] * len(job.segments)
        self._warnings: list[tuple[str, ...]] = [()] * len(job.segments)
        self._steps = 0
        self._truncated = False
        self._error: GenerationError | None = None

    def add(self, index: int, result: Generated, samples: Samples) -> None:
        """Take in what the `index`-th segment became; of a failed one no samples are kept."""
        text, steps = self.job.segments[index].text, len(result.codes)
        self._steps += steps
        if result.failed:
            self._error = self._error or GenerationError(
                f"the model's numbers stopped being finite at step {steps} of {text[:_SHOWN]!r}, seed "
                f"{self.job.seed}. Try another seed; if it happens again, build the engine set anew"
            )
            return
        self._truncated = self._truncated or result.truncated
        self._samples[index] = samples
        self._warnings[index] = tuple(self._located(text, item) for item in _warnings(text, steps, result.truncated))

    def audio(self) -> Audio:
        """The whole text, with its pauses.

        Raises:
            GenerationError: a segment failed.
        """
        if self._error is not None:
            raise self._error
        parts: list[Samples] = []
        for segment, samples in zip(self.job.segments, self._samples, strict=True):
            if samples is not None:
                parts += [samples, np.zeros(round(segment.pause * SAMPLE_RATE), np.float32)]
        job = self.job
        warnings = (*job.warnings, *(item for items in self._warnings for item in items))
        return Audio(np.concatenate(parts), job.seed, self._steps, self._truncated, job.text, warnings)

    def _located(self, text: str, warning: str) -> str:
        return warning if len(self.job.segments) == 1 else f"{text[:_SHOWN]!r}: {warning}"


def _warnings(text: str, steps: int, truncated: bool) -> list[str]:
    seconds = steps / STEPS_PER_SECOND
    if truncated:
        return [f"stopped at the limit of {steps} steps ({seconds:.1f} s) before the model ended"]
    letters = sum(c.isalnum() for c in text)
    if steps < max(FEWEST_STEPS, FEWEST_STEPS_PER_LETTER * letters):
        return [f"only {seconds:.2f} s of sound: the voice may not know this text"]
    return []
