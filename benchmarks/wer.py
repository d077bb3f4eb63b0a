"""Word error rate of an engine set of the demo voice, heard by an offline recogniser.

Needs the dev extra.

    python benchmarks/wer.py --engine engines/cpu-int8 --sentences 100 --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import jiwer
import numpy as np

from trt_tts import Engine
from trt_tts.builders.recogniser import Recogniser, demo_recogniser, words_of
from trt_tts.demo import heldout_sentences

CARD_WER = 0.049
"""The model card's figure for text to speech with the published implementation's arithmetic."""


@dataclass(frozen=True)
class WerResult:
    """What the recogniser heard."""

    wer: float
    by_seed: dict[int, float]
    sentences: int
    right: float
    """Share of sentences heard right to the last word."""
    rtf: float
    """Seconds of synthesis per second of speech."""


def measure(engine: Engine, sentences: Sequence[str], seeds: Sequence[int], recogniser: Recogniser) -> WerResult:
    """Speak each sentence with each seed, voices in turn, and compare what is heard."""
    voices = list(engine.voices)
    by_seed, right, spoken, seconds = {}, 0, 0.0, 0.0
    for seed in seeds:
        wanted, heard = [], []
        for i, sentence in enumerate(sentences):
            started = time.perf_counter()
            audio = engine.synthesize(sentence, voice=voices[i % len(voices)], seed=seed)
            seconds += time.perf_counter() - started
            spoken += audio.duration
            wanted.append(" ".join(words_of(sentence)))
            heard.append(recogniser.hear(audio.samples) or "-")
        by_seed[seed] = jiwer.wer(wanted, heard)
        right += sum(a == b for a, b in zip(wanted, heard, strict=True))
    count = len(sentences) * len(seeds)
    return WerResult(float(np.mean(list(by_seed.values()))), by_seed, len(sentences), right / count, seconds / spoken)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=100)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with Engine.load(arguments.engine) as engine:
        engine.warm_up()
        result = measure(engine, heldout_sentences(arguments.sentences), arguments.seeds, demo_recogniser())
        precision = engine.info.precision
    if arguments.json:
        print(json.dumps(asdict(result)))
        return
    seeds = ", ".join(f"{seed}: {value:.1%}" for seed, value in result.by_seed.items())
    print(
        f"{precision}: WER {result.wer:.1%} (model card {CARD_WER:.1%}) on {result.sentences} held-out sentences; "
        f"by seed {seeds}; {result.right:.0%} of sentences right; RTF {result.rtf:.3f}"
    )


if __name__ == "__main__":
    main()
