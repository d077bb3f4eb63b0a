import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_tts.calibration.linear_input import MOST_ROWS, LinearInput, int8_error

RANDOM = np.random.default_rng(5)
WEIGHT = RANDOM.standard_normal((24, 10), np.float32)


def test_reach_of_channels_and_kept_rows():
    inputs = LinearInput(WEIGHT)
    calls = [RANDOM.standard_normal((1, 30, 24), np.float32) for _ in range(100)]
    for call in calls:
        inputs.add(call)
    everything = np.concatenate([call[0] for call in calls])
    assert np.array_equal(inputs.channels, np.abs(everything).max(0))
    assert inputs.histogram.counts.sum() == everything.size
    assert inputs.rows.shape == (MOST_ROWS, 24)
    places = [int(np.flatnonzero((everything == row).all(1))[0]) % 30 for row in inputs.rows]
    assert set(places) == {3, 11, 18, 26}, "spread over the sentence, without its first position"


@pytest.mark.parametrize("steps", [1, 2, 3, 500])
def test_sentences_of_any_length_give_rows(steps):
    inputs = LinearInput(WEIGHT)
    inputs.add(RANDOM.standard_normal((1, steps, 24), np.float32))
    assert inputs.rows.shape == (4, 24)


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.005, 0.2))
def test_error_equals_a_restatement(seed, scale):
    rows = np.random.default_rng(seed).standard_normal((7, 24)).astype(np.float32)
    exact_steps = np.abs(WEIGHT).max(0) / 127
    steps = np.float16(exact_steps)
    steps = np.where(steps < exact_steps, np.nextafter(steps, np.float16(1)), steps).astype(np.float64)
    weight = np.rint(WEIGHT / steps) * steps
    quantized = np.clip(np.rint(rows / scale), -128, 127) * scale
    exact = rows.astype(np.float64) @ WEIGHT
    expected = np.square(quantized @ weight - exact).sum() / np.square(exact).sum()
    assert int8_error(rows, WEIGHT, scale) == pytest.approx(expected, rel=1e-3)


def test_clipping_and_coarseness_both_cost():
    rows = RANDOM.standard_normal((64, 24)).astype(np.float32)
    good = np.abs(rows).max() / 127
    errors = [int8_error(rows, WEIGHT, factor * good) for factor in (0.05, 1, 20)]
    assert errors[1] < errors[0] and errors[1] < errors[2]
    assert errors[2] > 100 * errors[1], "scales that are 20 times too large"
