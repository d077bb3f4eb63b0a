"""The proof that the whole chain is right: a recogniser understands held-out sentences."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

SENTENCES = 25
SEEDS = (0, 1, 2)
ALLOWED = 0.03
"""Three points above the model card."""


@pytest.fixture(scope="module")
def wer():
    file = Path(__file__).parents[2] / "benchmarks" / "wer.py"
    spec = importlib.util.spec_from_file_location("wer", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["wer"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["engine", "int8_engine"])
def test_held_out_sentences_are_understood(wer, fixture, request):
    engine = request.getfixturevalue(fixture)
    result = wer.measure(engine, wer.heldout_sentences(SENTENCES), SEEDS, wer.demo_recogniser())
    print(f"{engine.info.precision}: {result}")
    assert result.wer < wer.CARD_WER + ALLOWED


@pytest.mark.slow
def test_the_recogniser_cannot_be_fooled_by_other_speech_or_noise(wer, engine):
    sentences = wer.heldout_sentences(12)
    recogniser = wer.demo_recogniser()
    audio = [engine.synthesize(text, seed=0).samples for text in sentences]
    swapped = [recogniser.hear(samples) or "-" for samples in audio[1:] + audio[:1]]
    wanted = [" ".join(wer.words_of(text)) for text in sentences]
    assert wer.jiwer.wer(wanted, swapped) > 0.7
    noise = np.random.default_rng(0).normal(0, 0.1, 48_000).astype(np.float32)
    assert len(recogniser.hear(noise).split()) < 4
