"""Word error rates of free-running speech, as far as something here can hear the voice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.demo import heldout_sentences, is_demo_voice
from trt_tts.quality import WordErrors

from .reference import Reference
from .samples import speak

STEPS = 512
ROWS = 25
Counts = list[tuple[int, int]]
"""Wrong words and words, per utterance."""


class Listener:
    """Speaks held-out sentences of the demo voice and counts the words that a recogniser gets wrong."""

    def __init__(self, reference: Reference, sentences: int, seeds: Sequence[int]) -> None:
        from .recogniser import demo_recogniser

        self.reference, self.seeds = reference, seeds
        self.sentences = heldout_sentences(sentences)
        self._codec = open_session(reference.codec, usable_threads())
        self._recogniser = demo_recogniser()

    def compare(self, tested: Path) -> WordErrors:
        """Speak with the graph `tested`, as `samples.speak` takes it, and compare with the reference."""
        return compare_counts(self._count(tested), self._reference_counts)

    @cached_property
    def _reference_counts(self) -> Counts:
        return self._count(self.reference.gpt)

    def _count(self, gpt: Path) -> Counts:
        found: Counts = []
        for seed in self.seeds:
            texts, first = self.sentences, seed * len(self.sentences)
            spoken, _ = speak(self.reference.voice, self.reference.tables, gpt, texts, STEPS, first, len(texts), ROWS)
            found += [self._errors(item.text, item.hidden) for item in spoken]
        return found

    def _errors(self, text: str, hidden: Any) -> tuple[int, int]:
        import jiwer

        from .recogniser import words_of

        (samples,) = self._codec.run(["wav"], {"hidden": hidden[None]})[0]
        wanted = words_of(text)
        heard = jiwer.process_words(" ".join(wanted), self._recogniser.hear(samples) or "-")
        return heard.substitutions + heard.deletions + heard.insertions, len(wanted)


def why_nobody_listens(hashes: Mapping[str, str]) -> str | None:
    """Why speech of the checkpoint with these file hashes cannot be heard here; None where it can."""
    if not is_demo_voice(hashes):
        return "the recogniser knows the demo voice's words only"
    try:
        import jiwer  # noqa: F401
        import pocketsphinx  # noqa: F401
        import soxr  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed; pip install pocketsphinx soxr jiwer"
    return None


def compare_counts(tested: Counts, reference: Counts) -> WordErrors:
    """Of the same utterances."""
    wrong, theirs = (np.array([errors for errors, _ in counts], float) for counts in (tested, reference))
    words = sum(count for _, count in reference)
    # Utterances are drawn independently: the variance of the sum is that of one difference times their number.
    deviation = float(np.std(wrong - theirs, ddof=1) * np.sqrt(len(wrong))) if len(wrong) > 1 else 0.0
    return WordErrors(float(wrong.sum() / words), float(theirs.sum() / words), deviation / words, len(wrong))
