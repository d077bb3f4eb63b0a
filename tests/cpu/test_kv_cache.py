import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.cpu.kv_cache import KeyValueCache
from trt_tts.model_config import GptConfig

HEADS, WIDTH, LAYERS = 2, 4, 2
SIZES = GptConfig(hidden_size=HEADS * WIDTH, num_attention_heads=HEADS, num_hidden_layers=LAYERS)
NAMES = ["k_0", "v_0", "k_1", "v_1"]


def fill(cache, row, positions, seed):
    """Write `positions` recognisable positions into a cleared row and return what was written, by name."""
    cache.clear_row(row)
    draws = np.random.default_rng(seed)
    written = {}
    for name, view in cache.blocks(row, 1):
        written[name] = draws.normal(size=(HEADS, positions, WIDTH)).astype(np.float32)
        view[0, :, :positions] = written[name]
    return written


def require_row(cache, row, written):
    """The row holds what was written, then zeros."""
    for name, view in cache.blocks(row, 1):
        positions = written[name].shape[1]
        np.testing.assert_array_equal(view[0, :, :positions], written[name])
        assert not view[0, :, positions:].any()


def content(cache, row):
    return [view[0].copy() for _, view in cache.blocks(row, 1)]


@given(
    rows=st.integers(1, 4),
    capacity=st.integers(1, 700),
    grows=st.lists(st.floats(0, 1), max_size=6),
    data=st.data(),
)
def test_growing_keeps_used_rows_and_zeroes_their_tails(rows, capacity, grows, data):
    cache = KeyValueCache(SIZES, rows, capacity)
    used = data.draw(st.integers(1, rows))
    written = [fill(cache, row, data.draw(st.integers(0, cache.span)), seed=row) for row in range(used)]
    for share in grows:
        positions, before = max(1, int(share * capacity)), cache.span
        cache.grow(positions, used)
        assert max(positions, before) <= cache.span <= capacity
        for row in range(used):
            require_row(cache, row, written[row])


def test_growing_writes_what_each_step_added():
    cache = KeyValueCache(SIZES, rows=3, capacity=600)
    expected = [fill(cache, row, 100, seed=row) for row in range(3)]
    for positions in (130, 300, 600):
        cache.grow(positions, 3)
        for row in range(3):
            for name, view in cache.blocks(row, 1):
                view[0, :, positions - 1] = positions + row
                padded = np.zeros((HEADS, positions, WIDTH), np.float32)
                padded[:, : expected[row][name].shape[1]] = expected[row][name]
                padded[:, -1] = positions + row
                expected[row][name] = padded
    for row in range(3):
        require_row(cache, row, expected[row])


@pytest.mark.parametrize(("capacity", "asked", "span"), [(1000, 128, 128), (1000, 129, 256), (200, 129, 200)])
def test_the_span_grows_in_steps_up_to_the_capacity(capacity, asked, span):
    cache = KeyValueCache(SIZES, 1, capacity)
    assert cache.span == 128
    cache.grow(asked, 1)
    assert cache.span == span


def test_a_small_capacity_bounds_the_first_span():
    assert KeyValueCache(SIZES, 1, 40).span == 40


def test_growing_to_less_changes_nothing():
    cache = KeyValueCache(SIZES, 2, 600)
    cache.grow(400, 2)
    written = fill(cache, 1, 390, seed=1)
    before = cache.span
    cache.grow(3, 2)
    assert cache.span == before
    require_row(cache, 1, written)


def test_reset_starts_small_and_a_cleared_row_holds_nothing_of_the_last_run():
    cache = KeyValueCache(SIZES, 2, 600)
    cache.grow(600, 2)
    for row in range(2):
        fill(cache, row, 600, seed=row)
    for _, view in cache.blocks(0, 2):
        view[:] = np.nan
    cache.reset()
    assert cache.span == 128
    for row in range(2):
        cache.clear_row(row)
    cache.grow(600, 2)
    for _, view in cache.blocks(0, 2):
        assert not view.any()


@given(rows=st.integers(1, 5), data=st.data())
def test_clear_row_touches_only_its_row(rows, data):
    cache = KeyValueCache(SIZES, rows, 256)
    for row in range(rows):
        fill(cache, row, cache.span, seed=row)
    before = [content(cache, row) for row in range(rows)]
    cleared = data.draw(st.integers(0, rows - 1))
    cache.clear_row(cleared)
    for row in range(rows):
        for now, old in zip(content(cache, row), before[row], strict=True):
            np.testing.assert_array_equal(now, np.zeros_like(old) if row == cleared else old)


@given(rows=st.integers(2, 5), data=st.data())
def test_move_row_touches_only_the_target(rows, data):
    cache = KeyValueCache(SIZES, rows, 300)
    cache.grow(data.draw(st.sampled_from([1, 200, 300])), 0)
    for row in range(rows):
        fill(cache, row, cache.span, seed=row)
    before = [content(cache, row) for row in range(rows)]
    source, target = data.draw(st.tuples(st.integers(0, rows - 1), st.integers(0, rows - 1)))
    cache.move_row(source, target)
    for row in range(rows):
        for now, old in zip(content(cache, row), before[source if row == target else row], strict=True):
            np.testing.assert_array_equal(now, old)


def test_a_moved_row_is_a_copy():
    cache = KeyValueCache(SIZES, 2, 128)
    written = fill(cache, 0, 50, seed=0)
    cache.move_row(0, 1)
    cache.clear_row(0)
    require_row(cache, 1, written)


def test_blocks_name_every_layer_once():
    blocks = KeyValueCache(SIZES, 3, 300).blocks(0, 3)
    assert sorted(name for name, _ in blocks) == sorted(NAMES)
    assert all(view.shape == (3, HEADS, 128, WIDTH) and view.dtype == np.float32 for _, view in blocks)
    assert len({view.ctypes.data for _, view in blocks}) == len(NAMES)


@pytest.mark.parametrize("asked", [1, 200, 300])
def test_row_views_are_contiguous_and_lie_one_after_the_other(asked):
    cache = KeyValueCache(SIZES, 4, 300)
    first = {name: view.ctypes.data for name, view in cache.blocks(0, 4)}
    cache.grow(asked, 0)
    for row in range(4):
        for name, view in cache.blocks(row, 1):
            assert view.flags.c_contiguous
            assert view.ctypes.data == first[name] + row * HEADS * cache.span * WIDTH * 4
    for name, view in cache.blocks(1, 3):
        assert view.flags.c_contiguous
        assert view.shape[0] == 3
        assert view.ctypes.data == first[name] + HEADS * cache.span * WIDTH * 4


def test_what_is_written_into_a_view_is_in_the_cache():
    cache = KeyValueCache(SIZES, 3, 300)
    for i, (_, view) in enumerate(cache.blocks(1, 1)):
        view[0, 1, 5] = i + 1
    for i, (_, view) in enumerate(cache.blocks(0, 3)):
        assert (view[1, 1, 5] == i + 1).all()
        assert np.count_nonzero(view) == WIDTH


def test_bytes_are_those_of_the_whole_capacity():
    assert KeyValueCache(SIZES, 3, 300).bytes == 2 * LAYERS * 3 * HEADS * 300 * WIDTH * 4
