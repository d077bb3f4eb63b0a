"""Joins what was generated of one text, segment by segment, into its audio."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_tts.audio import Audio
from trt_tts.clip import Clip
from trt_tts.errors import GenerationError
from trt_tts.generation import Request
from trt_tts.model_config import CODE_HOP, SAMPLE_RATE, STEPS_PER_SECOND
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
    """The clips of a job's segments, joined."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.clips: list[Clip] = []
        """One per segment, once they are submitted."""

    @property
    def ended(self) -> int:
        """How many segments have ended."""
        return sum(clip.ended for clip in self.clips)

    @property
    def all_ended(self) -> bool:
        """Whether nothing of it is under way."""
        return all(clip.ended for clip in self.clips)

    def audio(self) -> Audio:
        """The whole text, with its pauses, once all clips have ended.

        Raises:
            TrtTtsError: what ended the loop before.
            GenerationError: a segment's numbers were not finite.
        """
        for index in range(len(self.clips)):
            self._require_good(index)
        chunks = [self.chunk(index) for index in range(len(self.clips))]
        return Audio(
            samples=np.concatenate([chunk.samples for chunk in chunks]),
            seed=self.job.seed,
            steps=sum(len(clip.generation.codes) for clip in self.clips),
            truncated=any(chunk.truncated for chunk in chunks),
            text=self.job.text,
            warnings=tuple(item for chunk in chunks for item in chunk.warnings),
        )

    def chunk(self, index: int) -> Audio:
        """What was decoded of a segment since the last call; with its pause once it has ended. Errors as `audio`."""
        self._require_good(index)
        clip, segment, job = self.clips[index], self.job.segments[index], self.job
        warnings = list(job.warnings) if index == 0 and not clip.taken else []
        samples = np.concatenate([np.zeros(0, np.float32), *clip.take()])
        steps = -(-len(samples) // CODE_HOP)
        if clip.ended:
            samples = np.concatenate([samples, np.zeros(round(segment.pause * SAMPLE_RATE), np.float32)])
            warnings += self._warnings(index)
        truncated = clip.ended and clip.generation.truncated
        return Audio(samples, job.seed, steps, truncated, segment.text, tuple(warnings))

    def _require_good(self, index: int) -> None:
        generation = self.clips[index].generation
        if generation.error is not None:
            raise generation.error
        if generation.failed:
            raise GenerationError(
                f"the model's numbers stopped being finite at step {len(generation.codes)} of "
                f"{self.job.segments[index].text[:_SHOWN]!r}, seed {self.job.seed}. Try another seed; if it happens "
                f"again, build the engine set anew"
            )

    def _warnings(self, index: int) -> list[str]:
        text, generation = self.job.segments[index].text, self.clips[index].generation
        found = _warnings(text, len(generation.codes), generation.truncated)
        return found if len(self.clips) == 1 else [f"{text[:_SHOWN]!r}: {item}" for item in found]


def _warnings(text: str, steps: int, truncated: bool) -> list[str]:
    seconds = steps / STEPS_PER_SECOND
    if truncated:
        return [f"stopped at the limit of {steps} steps ({seconds:.1f} s) before the model ended"]
    letters = sum(c.isalnum() for c in text)
    if steps < max(FEWEST_STEPS, FEWEST_STEPS_PER_LETTER * letters):
        return [f"only {seconds:.2f} s of sound: the voice may not know this text"]
    return []
