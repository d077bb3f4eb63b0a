import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference_case import snr
from trt_tts.model_config import ModelConfig
from trt_tts.windows import receptive_steps, windows

SIZES = st.tuples(st.integers(1, 3000), st.integers(1, 60), st.integers(1, 400))
CLIP = 90


def samples_of(steps):
    return 256 * (2 * steps - 1)


@given(SIZES)
def test_what_is_kept_is_the_clip_once_and_in_order(sizes):
    steps, margin, stride = sizes
    end = 0
    for window in windows(steps, 2 * margin + stride, margin):
        assert 512 * window.first + window.skip == end
        assert window.keep > 0
        assert window.skip + window.keep <= samples_of(window.steps)
        end += window.keep
    assert end == samples_of(steps)


@given(SIZES)
def test_windows_are_bounded_and_have_their_margins(sizes):
    steps, margin, stride = sizes
    most = 2 * margin + stride
    found = list(windows(steps, most, margin))
    for window in found:
        assert window.first >= 0 and window.first + window.steps <= steps
        assert 1 <= window.steps <= most
        before, after = window.skip // 512, window.steps - -(-(window.skip + window.keep) // 512)
        assert before >= min(margin, window.first + before)
        assert window.first + window.steps == steps or after >= margin
    assert len(found) == (1 if steps <= most else -(-steps // stride))


def test_margins_that_leave_no_room_are_refused():
    with pytest.raises(ValueError, match="a window of 20 steps has no room between margins of 10"):
        list(windows(100, 20, 10))


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
        return session.run(["wav"], {name: np.ascontiguousarray(np.take(clip, np.arange(first, first + steps), axis))})[
            0
        ][0]

    whole = decode(0, CLIP)
    parts = [
        decode(window.first, window.steps)[window.skip : window.skip + window.keep]
        for window in windows(CLIP, 2 * margin + 11, margin)
    ]
    assert len(parts) > 5
    assert snr(whole, np.concatenate(parts)) > 100
    short = [
        decode(window.first, window.steps)[window.skip : window.skip + window.keep]
        for window in windows(CLIP, 2 * (margin // 3) + 11, margin // 3)
    ]
    assert snr(whole, np.concatenate(short)) < 100, "a third of the margin would do as well"
