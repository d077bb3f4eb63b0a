import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.builders.reference import Reference
from trt_tts.builders.word_errors import Listener, compare_counts, why_nobody_listens

COUNTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), min_size=2, max_size=40)


@given(COUNTS)
def test_rates_and_the_error_of_their_difference_equal_a_restatement(found):
    tested, reference = [(a, n) for a, _, n in found], [(b, n) for _, b, n in found]
    words = compare_counts(tested, reference)
    total = sum(n for _, _, n in found)
    assert words.rate == pytest.approx(sum(a for a, _, _ in found) / total)
    assert words.reference == pytest.approx(sum(b for _, b, _ in found) / total)
    differences = [a - b for a, b, _ in found]
    mean = sum(differences) / len(differences)
    variance = sum((d - mean) ** 2 for d in differences) / (len(differences) - 1)
    assert words.standard_error == pytest.approx((len(differences) * variance) ** 0.5 / total, abs=1e-12)
    assert words.utterances == len(found)


def test_the_error_of_the_difference_is_what_repeating_the_test_would_show():
    random = np.random.default_rng(0)
    rises, errors = [], []
    for _ in range(300):
        tested = [(int(random.binomial(7, 0.08)), 7) for _ in range(60)]
        reference = [(int(random.binomial(7, 0.06)), 7) for _ in range(60)]
        words = compare_counts(tested, reference)
        rises.append(words.rate - words.reference)
        errors.append(words.standard_error)
    assert np.std(rises) == pytest.approx(np.mean(errors), rel=0.15)


def test_one_utterance_tells_nothing_about_chance():
    assert compare_counts([(1, 4)], [(0, 4)]).standard_error == 0


def test_other_voices_have_no_listener(tiny, demo):
    assert "demo voice's words only" in why_nobody_listens(tiny.hashes)
    assert "demo voice's words only" in why_nobody_listens({})
    assert why_nobody_listens(demo.hashes) is None


@pytest.mark.parametrize("package", ["pocketsphinx", "soxr", "jiwer"])
def test_a_missing_package_is_named(demo, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    reason = why_nobody_listens(demo.hashes)
    assert package in reason and "pip install" in reason


@pytest.mark.slow
def test_a_listener_hears_fp32_and_not_a_graph_that_lost_its_words(demo, demo_set, tmp_path):
    """The other graph's hidden states are those of weights that were all set to their mean."""
    import onnx

    reference = Reference(demo, demo.hashes, demo_set, demo_set / "gpt.onnx", demo_set / "codec.onnx")
    listener = Listener(reference, sentences=3, seeds=(0,))
    assert listener.compare(reference.gpt).rate < 0.3
    model = onnx.load(demo_set / "gpt.onnx")
    for tensor in model.graph.initializer:
        if tensor.name.endswith("mlp.down_proj.weight"):
            weight = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.full_like(weight, weight.mean()), tensor.name))
    onnx.save(model, tmp_path / "deaf.onnx")
    words = listener.compare(tmp_path / "deaf.onnx")
    assert words.rate > 0.6 and words.reference < 0.3
    assert words.rise > 0.02
