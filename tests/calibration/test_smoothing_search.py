import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_tts.builders.qdq import LARGEST
from trt_tts.calibration.histogram import METHODS, Histogram
from trt_tts.calibration.linear_input import LinearInput, int8_error
from trt_tts.calibration.smoothing_search import FURTHEST, STRENGTHS, best_strength, smoothing_factors

DEEP, WIDE = 32, 12


def linear(seed, spread):
    """A linear whose input channels differ in size by about e ** spread."""
    random = np.random.default_rng(seed)
    inputs = LinearInput(random.standard_normal((DEEP, WIDE)).astype(np.float32))
    sizes = np.exp(spread * random.standard_normal(DEEP))
    for _ in range(20):
        inputs.add((random.standard_normal((1, 8, DEEP)) * sizes).astype(np.float32))
    return inputs


@given(st.integers(0, 2**32 - 1), st.floats(0, 4), st.sampled_from(STRENGTHS))
@settings(max_examples=40)
def test_factors_are_those_of_the_paper_up_to_a_common_one(seed, spread, strength):
    inputs = linear(seed, spread)
    found = smoothing_factors(inputs, strength)
    assert np.isfinite(found).all() and (found > 0).all()
    assert found.max() <= FURTHEST and found.min() >= 1 / FURTHEST
    paper = inputs.channels**strength / np.abs(inputs.weight).max(1) ** (1 - strength)
    free = (found < FURTHEST) & (found > 1 / FURTHEST)
    ratio = found[free] / paper[free]
    assert ratio == pytest.approx(ratio[0], rel=1e-4)


def test_full_strength_makes_all_channels_reach_equally_far():
    inputs = linear(0, 1.5)
    reach = inputs.channels / smoothing_factors(inputs, 1.0)
    assert reach == pytest.approx(reach[0], rel=1e-5)


def test_channels_that_are_zero_keep_their_size():
    inputs = linear(1, 1)
    inputs.channels[3] = 0
    inputs.weight[5] = 0
    factors = smoothing_factors(inputs, 0.5)
    assert factors[3] == factors[5] == 1
    inputs.channels[:] = 0
    assert (smoothing_factors(inputs, 0.5) == 1).all()


def error(inputs, factors, method):
    rows, weight = inputs.rows / factors, inputs.weight * factors[:, None]
    histogram = Histogram()
    histogram.add(rows)
    return int8_error(rows, weight, METHODS[method](histogram) / LARGEST)


@given(st.integers(0, 2**32 - 1), st.floats(0, 3), st.sampled_from(sorted(METHODS)))
@settings(max_examples=25)
@pytest.mark.slow
def test_no_other_strength_errs_less(seed, spread, method):
    inputs = linear(seed, spread)
    best = best_strength(inputs, METHODS[method])
    errors = {0.0: error(inputs, np.ones(DEEP, np.float32), method)}
    errors |= {strength: error(inputs, smoothing_factors(inputs, strength), method) for strength in STRENGTHS}
    assert errors[best] == min(errors.values())


def test_outlying_channels_are_smoothed_and_the_error_falls():
    inputs = linear(2, 2)
    strength = best_strength(inputs, METHODS["max"])
    assert strength > 0
    smooth = error(inputs, smoothing_factors(inputs, strength), "max")
    assert smooth < 0.5 * error(inputs, np.ones(DEEP, np.float32), "max")
