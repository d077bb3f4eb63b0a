"""The gates' arithmetic."""

from dataclasses import asdict, replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.quality import GATES, Quality, WordErrors

GOOD = Quality("fp32", False, 100, 0.99, 0.001, 40.0, 0.001, 0.02, WordErrors(0.07, 0.065, 0.01, 100), "")
INT8 = GATES["int8"]


def states(found):
    return {line.measure: line.passed for line in INT8.lines(found)}


def test_a_good_set_passes_every_measure():
    assert set(states(GOOD).values()) == {True}
    assert INT8.passes(GOOD)


@pytest.mark.parametrize(
    ("change", "measure"),
    [
        ({"top1": 0.9549}, "top-1 agreement"),
        ({"kl": 0.0101}, "KL divergence, nats"),
        ({"hidden_snr_db": 17.9}, "hidden states, dB"),
        ({"mel_l1": 0.051}, "mel L1, Np"),
        ({"mcd_db": 0.31}, "mel-cepstral distortion, dB"),
        ({"words": WordErrors(0.12, 0.07, 0.01, 300)}, "WER"),
    ],
)
def test_each_measure_alone_fails_the_gate(change, measure):
    found = states(replace(GOOD, **change))
    assert found == {**states(GOOD), measure: False}
    assert not INT8.passes(replace(GOOD, **change))


@pytest.mark.parametrize("name", ["top1", "kl", "hidden_snr_db", "mel_l1", "mcd_db"])
def test_what_is_not_a_number_fails(name):
    assert not INT8.passes(replace(GOOD, **{name: float("nan")}))


def test_limits_themselves_pass():
    at = Quality("fp32", True, 1, INT8.least_top1, INT8.most_kl, INT8.least_hidden_snr_db, INT8.most_mel_l1, 0.3)
    assert INT8.passes(at)


def test_words_nobody_heard_are_shown_as_such_and_are_no_pass():
    unheard = replace(GOOD, words=None, words_note="pocketsphinx is not installed")
    line = INT8.lines(unheard)[-1]
    assert line.value == "not measured: pocketsphinx is not installed"
    assert line.passed is None
    assert INT8.passes(unheard), "what was measured is good"


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 0.2))
def test_a_rise_counts_only_beyond_two_standard_errors(rate, reference, error):
    words = WordErrors(rate, reference, error, 50)
    assert states(replace(GOOD, words=words))["WER"] == (rate - reference - 2 * error <= 0.02)


def test_a_finer_precision_is_held_to_more():
    order = [GATES[name] for name in ("fp32", "fp16", "int8", "int4")]
    for finer, coarser in pairwise(order):
        assert finer.least_top1 > coarser.least_top1
        assert finer.most_kl < coarser.most_kl
        assert finer.least_hidden_snr_db > coarser.least_hidden_snr_db
        assert finer.most_mel_l1 < coarser.most_mel_l1
        assert finer.most_mcd_db < coarser.most_mcd_db


@pytest.mark.parametrize("found", [GOOD, replace(GOOD, words=None, words_note="nobody listens")])
def test_json_and_back(found):
    assert Quality.from_json(asdict(found)) == found
