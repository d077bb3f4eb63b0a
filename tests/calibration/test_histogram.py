import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from trt_tts.calibration.histogram import BINS, Histogram

PARTS = st.lists(
    npst.arrays(np.float32, st.integers(1, 200), elements=st.floats(-1e4, 1e4, width=32)), min_size=1, max_size=6
)


def filled(*parts):
    histogram = Histogram()
    for part in parts:
        histogram.add(part)
    return histogram


@given(PARTS)
def test_nothing_is_lost_and_memory_stays_fixed(parts):
    histogram = filled(*parts)
    assert histogram.counts.sum() == sum(part.size for part in parts)
    assert histogram.counts.shape == (BINS,)
    assert histogram.largest == max(float(np.abs(part).max()) for part in parts)


@given(PARTS, st.floats(1, 100))
def test_percentiles_are_those_of_all_values_to_a_bin(parts, percent):
    histogram = filled(*parts)
    sizes = np.abs(np.concatenate(parts))
    exact = np.quantile(sizes, percent / 100, method="inverted_cdf")
    assert histogram.percentile(percent) == pytest.approx(exact, abs=2 * histogram.range / BINS + 1e-30)


@given(PARTS)
def test_thresholds_never_exceed_the_largest_value(parts):
    histogram = filled(*parts)
    assert 0 <= histogram.entropy() <= histogram.largest
    assert histogram.percentile(100) <= histogram.largest
    assert histogram.clipped(histogram.largest) == 0


@given(PARTS, st.floats(0, 1))
def test_clipped_counts_what_lies_beyond_to_a_bin(parts, share):
    histogram = filled(*parts)
    threshold, bin_width = share * histogram.largest, histogram.range / BINS
    sizes = np.abs(np.concatenate(parts).astype(np.float64))
    assert (sizes > threshold + bin_width).mean() <= histogram.clipped(threshold) <= (sizes > threshold).mean()


def test_a_value_on_the_edge_of_a_bin_is_not_beyond_itself():
    assert filled(np.float32([1]), np.float32([3])).clipped(3.0) == 0


def test_entropy_cuts_a_far_outlier_and_keeps_a_flat_range():
    random = np.random.default_rng(0)
    bulk = random.standard_normal(200_000).astype(np.float32)
    with_outlier = filled(bulk, np.float32([60.0]))
    assert 2 < with_outlier.entropy() < 20
    assert with_outlier.percentile(99.99) == pytest.approx(np.quantile(np.abs(bulk), 0.9999), rel=0.05)
    flat = filled(random.uniform(-1, 1, 200_000).astype(np.float32))
    assert flat.entropy() > 0.95


def test_clipped_is_the_share_beyond_the_threshold():
    values = np.linspace(0, 1, 10_001, dtype=np.float32)
    assert filled(values).clipped(0.9) == pytest.approx(0.1, abs=1e-3)


def test_order_of_the_parts_does_not_matter_much():
    random = np.random.default_rng(1)
    parts = [random.standard_normal(1000).astype(np.float32) * scale for scale in (0.1, 1, 30)]
    first, second = filled(*parts), filled(*parts[::-1])
    assert first.percentile(99) == pytest.approx(second.percentile(99), abs=2 * max(first.range, second.range) / BINS)


def test_zeros_alone_give_zero():
    histogram = filled(np.zeros(5, np.float32))
    assert histogram.percentile(99.99) == histogram.entropy() == histogram.largest == 0
