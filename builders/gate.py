"""The gate that quantized builds pass or fail: what is judged, who listens, and the error that names the limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trt_tts.demo import heldout_sentences, is_demo_voice
from trt_tts.errors import QualityError, UsageError
from trt_tts.progress import Progress
from trt_tts.quality import GATES, Quality

from .quality import Judge
from .reference import Reference
from .samples import TEXTS, speak
from .word_errors import Listener, why_nobody_listens

MOST_TEXTS = 25
STEPS = 192
ROWS = 8
_CPU_WAY_OUT = {"int8": "Build with --precision fp32", "int4": "Build with --precision int8"}
_GPU_WAY_OUT = {
    "int8": "Calibrate with more and fitting texts or with --sensitivity, or build with --precision fp16",
    "fp16": "Pin the layers that suffer with --precision-map",
}


def judged_texts(hashes: Mapping[str, str]) -> tuple[str, ...]:
    """What a voice with these file hashes is judged on: held-out sentences of the demo voice, else `samples.TEXTS`."""
    return tuple(heldout_sentences(MOST_TEXTS)) if is_demo_voice(hashes) else TEXTS[:MOST_TEXTS]


def make_judge(reference: Reference, texts: Sequence[str] | None = None) -> Judge:
    """Let the reference speak the texts, those of `judged_texts` where there are none.

    Raises:
        UsageError: the voice can speak none of them.
    """
    texts = texts or judged_texts(reference.hashes)
    spoken, _ = speak(reference.voice, reference.tables, reference.gpt, texts, STEPS, 0, len(texts), ROWS)
    if not spoken:
        raise UsageError(
            f"this voice can speak none of the {len(texts)} sentences it is judged on. Build with --no-gate, and name "
            f"sentences that it can speak: trt-tts verify --against fp32 --texts FILE"
        )
    return Judge(reference, spoken)


def add_words(
    found: Quality,
    reference: Reference,
    tested: Path,
    progress: Progress,
    sentences: int = MOST_TEXTS,
    seeds: Sequence[int] = (0,),
) -> Quality:
    """`found` with the word error rates of both graphs, or with the reason why there are none."""
    reason = why_nobody_listens(reference.hashes)
    if reason is not None:
        return replace(found, words_note=reason)
    progress("listening to free-running speech")
    return replace(found, words=Listener(reference, sentences, seeds).compare(tested), words_note="")


def require_quality(found: Quality, precision: str) -> None:
    """Raises QualityError with every measure that is beyond its limit."""
    if not GATES[precision].passes(found):
        raise quality_error(found, precision)


def way_out_of(precision: str, simulated: bool) -> str:
    """What to do about a set of this precision that is beyond its gate."""
    ways = _GPU_WAY_OUT if simulated else _CPU_WAY_OUT
    return ways.get(precision, "The sets differ in more than types: build both again from the checkpoint")


def quality_error(found: Quality, precision: str, circumstances: str = "") -> QualityError:
    """The error for a graph that does not pass the gate; names every measure beyond its limit, and the way out."""
    failed = [line for line in GATES[precision].lines(found) if line.passed is False]
    listed = "; ".join(f"{line.measure} {line.value}, allowed {line.limit}" for line in failed)
    way_out = way_out_of(precision, found.simulated)
    reason = f"{listed} ({circumstances})" if circumstances else listed
    message = (
        f"{precision} changes this voice too much: {reason}. {way_out}, or keep the set all the same with --no-gate"
    )
    return QualityError(message, found, precision)
