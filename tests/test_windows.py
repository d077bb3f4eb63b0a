import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference_case import snr
from trt_tts.model_config import ModelConfig
from trt_tts.windows import Windows, receptive_steps

CASES = st.tuples(st.integers(1, 1500), st.integers(1, 60), st.integers(1, 400), st.none() | st.integers(0, 60))
CLIP = 90


def samples_of(steps):
    return 256 * (2 * steps - 1)


def all_windows(steps, most, margin, lookahead=None):
    return list(Windows(margin, most, lookahead).take(steps, ended=True))


@given(CASES)
def test_what_is_kept_is_the_clip_once_and_in_order(case):
    steps, margin, room, lookahead = case
    end = 0
    for window in all_windows(steps, 2 * margin + room, margin, lookahead):
        assert 512 * window.first + window.skip == end
        assert window.keep > 0
        assert window.skip + window.keep <= samples_of(window.steps)
        end += window.keep
    assert end == samples_of(steps)


@given(CASES)
def test_windows_are_bounded_and_have_their_margins(case):
    steps, margin, room, lookahead = case
    most, ahead = 2 * margin + room, margin if lookahead is None else min(lookahead, margin)
    for window in all_windows(steps, most, margin, lookahead):
        assert window.first >= 0 and window.first + window.steps <= steps
        assert 1 <= window.steps <= most
        # With no lookahead at all the last half step waits for the next window.
        before, after = -(-window.skip // 512), window.steps - -(-(window.skip + window.keep) // 512)
        assert before == margin or window.first == 0
        assert after == ahead or window.first + window.steps == steps


@given(CASES, st.lists(st.integers(1, 40), max_size=50))
def test_a_growing_clip_has_the_windows_of_the_finished_one(case, growth):
    steps, margin, room, lookahead = case
    growing, found, there = Windows(margin, 2 * margin + room, lookahead), [], 0
    for more in growth:
        there = min(there + more, steps)
        found += growing.take(there, ended=False)
        assert all(window.first + window.steps <= there for window in found)
    found += growing.take(steps, ended=True)
    assert found == all_windows(steps, 2 * margin + room, margin, lookahead)


@given(CASES, st.integers(0, 200))
def test_a_lookahead_of_the_margin_or_more_is_exact(case, more):
    steps, margin, room, _ = case
    most = 2 * margin + room
    assert all_windows(steps, most, margin, margin + more) == all_windows(steps, most, margin)


@given(CASES)
def test_the_first_window_comes_when_it_says_and_no_sooner(case):
    _, margin, room, lookahead = case
    windows = Windows(margin, 2 * margin + room, lookahead)
    assert not list(windows.take(windows.first_steps - 1, ended=False))
    assert list(windows.take(windows.first_steps, ended=False))


@pytest.mark.parametrize(
    ("margin", "lookahead", "steps"), [(27, None, 29), (52, None, 54), (27, 12, 14), (52, 12, 14), (52, 0, 2)]
)
def test_a7_the_first_sound_comes_two_steps_after_what_it_depends_on(margin, lookahead, steps):
    """A7: margins of the demo voice and of the published sizes."""
    windows = Windows(margin, 512, lookahead)
    assert not list(windows.take(steps - 1, ended=False))
    (first,) = windows.take(steps, ended=False)
    assert (first.first, first.steps, first.skip) == (0, steps, 0)
    assert first.keep == 512 * 2 - (256 if lookahead == 0 else 0)


@pytest.mark.parametrize("steps", [100, 1000, 3000])
def test_the_work_is_linear_in_the_length(steps):
    decoded = sum(window.steps for window in all_windows(steps, 512, 52))
    assert decoded < 1.4 * steps + 300


def test_margins_that_leave_no_room_are_refused():
    with pytest.raises(ValueError, match="a window of 20 steps has no room between margins of 10"):
        Windows(10, 20)


def test_receptive_fields_of_the_published_and_the_demo_sizes(demo):
    published = ModelConfig()
    assert receptive_steps(published.decoder, published.vocos) == 52
    assert receptive_steps(demo.config.decoder, demo.config.vocos) == 27


@pytest.mark.parametrize("graph", ["codec", "codec_vq"])
def test_joined_windows_are_the_whole_clip(engine, demo, graph):
    session = engine._backend._session(graph)
    random, stack = np.random.default_rng(0), demo.config.decoder if graph == "codec" else demo.config.dvae.decoder
    margin = receptive_steps(stack, demo.config.vocos)
    if graph == "codec":
        clip, axis = random.standard_normal((1, CLIP, demo.config.gpt.hidden_size), np.float32), 1
    else:
        clip, axis = random.integers(0, 625, (1, 4, CLIP), np.int32), 2
    name = session.get_inputs()[0].name

    def decode(first, steps):
        part = np.ascontiguousarray(np.take(clip, np.arange(first, first + steps), axis))
        return session.run(["wav"], {name: part})[0][0]

    def joined(margin):
        parts = [
            decode(window.first, window.steps)[window.skip : window.skip + window.keep]
            for window in all_windows(CLIP, 2 * margin + 11, margin)
        ]
        assert len(parts) > 5
        return np.concatenate(parts)

    whole = decode(0, CLIP)
    assert snr(whole, joined(margin)) > 100
    assert snr(whole, joined(margin // 3)) < 100, "a third of the margin would do as well"
