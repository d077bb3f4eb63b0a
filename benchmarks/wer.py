"""Word error rate of an engine set of the demo voice, heard by an offline recogniser.

pocketsphinx's en-us model with the dictionary cut to the demo voice's words and a word bigram estimated on its training
text, as its model card describes. Needs the dev extra.

    python benchmarks/wer.py --engine engines/cpu-int8 --sentences 100 --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import json
import math
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

import jiwer
import numpy as np
import pocketsphinx
import soxr

from trt_tts import Engine
from trt_tts.demo import demo_checkpoint

CARD_WER = 0.049
"""The model card's figure for text to speech with the published implementation's arithmetic."""
LANGUAGE_MODEL_SENTENCES = 4020
DISCOUNT = 0.5
RECOGNISER_RATE = 16_000


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


def words_of(sentence: str) -> list[str]:
    """Lower-case words, without punctuation."""
    return re.findall(r"[a-z']+", sentence.lower())


class Recogniser:
    """Turns a 24 kHz waveform into words."""

    def __init__(self, training_text: Sequence[str]) -> None:
        sentences = [words_of(line) for line in training_text]
        vocabulary = {word for line in sentences for word in line}
        with tempfile.TemporaryDirectory() as folder:
            model, dictionary = Path(folder) / "bigram.arpa", Path(folder) / "words.dict"
            write_bigram(sentences, model)
            dictionary.write_text("".join(_pronunciations(vocabulary)), "utf-8")
            self._decoder = pocketsphinx.Decoder(lm=str(model), dict=str(dictionary), loglevel="FATAL")

    def hear(self, samples: np.ndarray) -> str:
        """The words in float32 samples [n] at 24 kHz."""
        wave = soxr.resample(samples.astype(np.float64), 24_000, RECOGNISER_RATE)
        quiet = np.zeros(RECOGNISER_RATE // 5)
        wave = np.concatenate([quiet, 0.5 * wave / max(1e-6, np.abs(wave).max(initial=0)), quiet])
        # A faint noise floor: the recogniser's features are undefined on digital silence.
        wave += np.random.default_rng(0).normal(0, 3e-4, wave.size)
        self._decoder.start_utt()
        self._decoder.process_raw((wave * 32767).astype(np.int16).tobytes(), full_utt=True)
        self._decoder.end_utt()
        found = self._decoder.hyp()
        return found.hypstr if found else ""


def write_bigram(sentences: Iterable[list[str]], file: Path) -> None:
    """A back-off word bigram with absolute discounting, in ARPA form."""
    single: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    for line in sentences:
        marked = ["<s>", *line, "</s>"]
        single.update(marked[1:])
        pairs.update(pairwise(marked))
    total = sum(single.values())
    followers: dict[str, list[str]] = defaultdict(list)
    context: Counter[str] = Counter()
    for (first, second), count in pairs.items():
        followers[first].append(second)
        context[first] += count
    probability = {word: count / total for word, count in single.items()}
    lines = ["\\data\\", f"ngram 1={len(probability) + 1}", f"ngram 2={len(pairs)}", "", "\\1-grams:"]
    for word in ["<s>", *sorted(probability)]:
        line = f"{_log10(probability[word]) if word in probability else '-99'} {word}"
        if word in followers:
            left = DISCOUNT * len(followers[word]) / context[word]
            line += f" {_log10(left / max(1e-6, 1 - sum(probability[w] for w in followers[word])))}"
        lines.append(line)
    lines += ["", "\\2-grams:"]
    lines += [f"{_log10((n - DISCOUNT) / context[a])} {a} {b}" for (a, b), n in sorted(pairs.items())]
    file.write_text("\n".join([*lines, "", "\\end\\", ""]), "utf-8")


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


def demo_recogniser() -> Recogniser:
    """The recogniser for the demo voice's domain."""
    text = (demo_checkpoint() / "train.txt").read_text("utf-8").splitlines()
    return Recogniser(text[:LANGUAGE_MODEL_SENTENCES])


def heldout_sentences(count: int) -> list[str]:
    """`count` of the 100 sentences the demo voice was not trained on, spread evenly over the list."""
    lines = (demo_checkpoint() / "heldout.txt").read_text("utf-8").splitlines()
    return [lines[i * len(lines) // count] for i in range(min(count, len(lines)))]


def _log10(value: float) -> str:
    return f"{math.log10(max(value, 1e-9)):.5f}"


def _pronunciations(vocabulary: set[str]) -> list[str]:
    source = Path(pocketsphinx.get_model_path()) / "en-us" / "cmudict-en-us.dict"
    lines = source.read_text("utf-8").splitlines(keepends=True)
    return [line for line in lines if re.sub(r"\(\d+\)$", "", line.split()[0]) in vocabulary]


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
