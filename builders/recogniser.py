"""An offline recogniser of the demo voice's speech.

pocketsphinx's en-us model with the dictionary cut to the demo voice's words and a word bigram estimated on its training
text, as its model card describes. Needs pocketsphinx and soxr, which the dev extra brings.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pocketsphinx
import soxr

from trt_tts.demo import demo_checkpoint

LANGUAGE_MODEL_SENTENCES = 4020
DISCOUNT = 0.5
RECOGNISER_RATE = 16_000


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

    def hear(self, samples: npt.NDArray[Any]) -> str:
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
        return str(found.hypstr) if found else ""


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
        entry = f"{_log10(probability[word]) if word in probability else '-99'} {word}"
        if word in followers:
            left = DISCOUNT * len(followers[word]) / context[word]
            entry += f" {_log10(left / max(1e-6, 1 - sum(probability[w] for w in followers[word])))}"
        lines.append(entry)
    lines += ["", "\\2-grams:"]
    lines += [f"{_log10((n - DISCOUNT) / context[a])} {a} {b}" for (a, b), n in sorted(pairs.items())]
    file.write_text("\n".join([*lines, "", "\\end\\", ""]), "utf-8")


def demo_recogniser() -> Recogniser:
    """The recogniser for the demo voice's domain."""
    text = (demo_checkpoint() / "train.txt").read_text("utf-8").splitlines()
    return Recogniser(text[:LANGUAGE_MODEL_SENTENCES])


def _log10(value: float) -> str:
    return f"{math.log10(max(value, 1e-9)):.5f}"


def _pronunciations(vocabulary: set[str]) -> list[str]:
    source = Path(pocketsphinx.get_model_path()) / "en-us" / "cmudict-en-us.dict"
    lines = source.read_text("utf-8").splitlines(keepends=True)
    return [line for line in lines if re.sub(r"\(\d+\)$", "", line.split()[0]) in vocabulary]
