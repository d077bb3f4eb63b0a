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

FEWEST_STEPS = 8
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
        self.clips: dict[int, Clip] = {}
        """Index of a segment -> its clip, from when it is submitted until it is released."""
        self.submitted = 0
        """Segments that were submitted, always the first ones."""
        self._settled = 0

    @property
    def settled(self) -> int:
        """The first segment that has not ended; none may have been released."""
        while self._settled < self.submitted and self.clips[self._settled].ended:
            self._settled += 1
        return self._settled

    @property
    def ended(self) -> int:
        """How many segments have ended; none may have been released."""
        return self.settled + sum(self.clips[index].ended for index in range(self._settled, self.submitted))

    @property
    def all_ended(self) -> bool:
        """Whether nothing of it is under way."""
        return all(clip.ended for clip in self.clips.values())

    @property
    def failed(self) -> bool:
        """Whether there will be no whole sound of it."""
        generations = (clip.generation for clip in self.clips.values())
        return any(generation.failed or generation.error is not None for generation in generations)

    @property
    def done(self) -> bool:
        """Whether nothing is left to do for it."""
        return self.all_ended and (self.submitted == len(self.job.requests) or self.failed)

    def release(self, index: int) -> None:
        """Forget a segment that was given out."""
        del self.clips[index]

    def audio(self) -> Audio:
        """The whole text, with its pauses, once all clips have ended.

        Raises:
            TrtTtsError: what ended the loop before.
            GenerationError: a segment's numbers were not finite.
        """
        for index in self.clips:
            self._require_good(index)
        chunks = [self.chunk(index) for index in self.clips]
        return Audio(
            samples=np.concatenate([chunk.samples for chunk in chunks]),
            seed=self.job.seed,
            steps=sum(len(clip.generation.codes) for clip in self.clips.values()),
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
        return found if len(self.job.segments) == 1 else [f"{text[:_SHOWN]!r}: {item}" for item in found]


def _warnings(text: str, steps: int, truncated: bool) -> list[str]:
    seconds = steps / STEPS_PER_SECOND
    if truncated:
        return [f"stopped at the limit of {steps} steps ({seconds:.1f} s) before the model ended"]
    letters = sum(c.isalnum() for c in text)
    if steps < max(FEWEST_STEPS, FEWEST_STEPS_PER_LETTER * letters):
        return [f"only {seconds:.2f} s of sound: the voice may not know this text"]
    return []
