"""`Engine.stream`, and calls that share the decode loop."""

import gc
import math
import threading
import time
import weakref
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.prompts import spoiled
from tests.reference_case import snr
from tests.threads import at_once
from trt_tts import Engine, GenerationError, SynthesisOptions, TrtTtsError, UsageError
from trt_tts.clip import Clip
from trt_tts.errors import TextError
from trt_tts.fair_lock import FairLock

SHORT = "the engine is ready. good morning"
TEXT = "the engine is ready. good morning. the train is late, and the weather is fine"


@pytest.fixture(scope="module")
def tiny_engine(tiny_set):
    with Engine.load(tiny_set) as loaded:
        yield loaded


def joined(chunks):
    return np.concatenate([chunk.samples for chunk in chunks])


@pytest.mark.parametrize("options", [{"seed": 1}, {"seed": 2, "voice": "bella"}, {"seed": 3, "use_decoder": False}])
def test_the_joined_stream_is_what_synthesize_gives_bit_for_bit(engine, options):
    whole, chunks = engine.synthesize(TEXT, **options), list(engine.stream(TEXT, **options))
    assert np.array_equal(joined(chunks), whole.samples)
    assert sum(chunk.steps for chunk in chunks) == whole.steps
    assert [item for chunk in chunks for item in chunk.warnings] == list(whole.warnings)
    assert {chunk.seed for chunk in chunks} == {options["seed"]}
    assert len({chunk.text for chunk in chunks}) == 3 < len(chunks)


def test_so_it_is_for_int8_and_for_the_random_checkpoint(int8_engine, tiny_set):
    assert np.array_equal(joined(int8_engine.stream(TEXT, seed=4)), int8_engine.synthesize(TEXT, seed=4).samples)
    with Engine.load(tiny_set) as tiny:
        options = {"seed": 1, "min_steps": 120, "max_steps": 120}
        assert np.array_equal(
            joined(tiny.stream("two words", **options)), tiny.synthesize("two words", **options).samples
        )


def test_a_limit_is_told_with_the_last_chunk(engine):
    chunks = list(engine.stream("the engine is ready", seed=1, max_steps=40))
    assert [chunk.truncated for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "limit of 40 steps" in chunks[-1].warnings[0]


@pytest.mark.parametrize(("lookahead", "steps"), [(None, 29), (12, 14), (0, 2), (255, 29)])
def test_a7_the_first_sound_comes_before_the_end(engine, lookahead, steps):
    """A7: two steps more than it depends on: the receptive field, 27 steps, or the lookahead."""
    stream = engine.stream("the train is late and the weather is fine", seed=1, lookahead=lookahead)
    first = next(stream)
    assert first.steps == 2
    (generation,) = engine._speaker._loop._active
    assert len(generation.codes) == steps == engine.first_sound_steps(lookahead)
    stream.close()


def test_a7_so_it_does_at_the_published_margin(engine, monkeypatch):
    """A7: the published sizes' codec looks at 52 steps to each side."""
    monkeypatch.setattr("trt_tts.speaking.receptive_steps", lambda stack, vocos: 52)
    for lookahead, steps in ((None, 54), (12, 14)):
        stream = engine.stream("the train is late and the weather is fine", seed=1, lookahead=lookahead)
        next(stream)
        (generation,) = engine._speaker._loop._active
        assert len(generation.codes) == steps == engine.first_sound_steps(lookahead)
        stream.close()


@given(lookahead=st.integers(0, 40), steps=st.integers(1, 90), seed=st.integers(0, 99), use_decoder=st.booleans())
@settings(max_examples=12)
def test_with_any_lookahead_the_joined_stream_is_what_synthesize_gives(
    tiny_engine, lookahead, steps, seed, use_decoder
):
    options = {"seed": seed, "lookahead": lookahead, "use_decoder": use_decoder, "min_steps": steps, "max_steps": steps}
    chunks = list(tiny_engine.stream("two words. three", **options))
    assert np.array_equal(joined(chunks), tiny_engine.synthesize("two words. three", **options).samples)
    assert sum(chunk.steps for chunk in chunks) == 2 * steps


def test_the_snr_of_a_lookahead_is_that_of_the_same_codes(engine):
    text, options = "the engine is ready", {"seed": 0, "max_steps": 160}
    found = {ahead: engine.lookahead_snr(ahead) for ahead in (0, 4, 12)}
    assert found[0] < found[4] < found[12]
    assert found[12] > 60
    exact = engine.synthesize(text, **options).samples
    for ahead in (0, 4, 12):
        sooner = engine.synthesize(text, lookahead=ahead, **options).samples
        assert snr(exact, sooner) == pytest.approx(found[ahead], abs=0.1)
    assert engine.lookahead_snr(27) == engine.lookahead_snr(255) == math.inf
    assert not engine._speaker._loop.busy


@pytest.mark.parametrize("lookahead", [-1, 256, 1.5, None])
def test_no_lookahead_has_no_snr(engine, lookahead):
    with pytest.raises(UsageError, match="lookahead is"):
        engine.lookahead_snr(lookahead)


@pytest.fixture
def clips(monkeypatch):
    """The clips that are alive; nothing but the last reference frees one."""
    alive, made = weakref.WeakSet(), Clip.__init__

    def noticed(self, *arguments):
        made(self, *arguments)
        alive.add(self)

    monkeypatch.setattr(Clip, "__init__", noticed)
    gc.disable()
    yield alive
    gc.enable()


def test_a_long_text_is_forgotten_as_it_is_given_out(tiny_engine, clips):
    """Of 200 segments, at most two per row are there at a time."""
    most = found = 0
    for chunk in tiny_engine.stream("two words. " * 200, seed=1, max_steps=8):
        most, found = max(most, len(clips)), found + chunk.steps
    assert found > 200
    assert tiny_engine.info.limits.max_batch < most <= 2 * tiny_engine.info.limits.max_batch
    assert not clips


def test_what_a_slow_listener_has_not_taken_is_bounded(tiny_engine, clips):
    """Another call steps for all, but begins no segment of a stream that nobody takes."""
    stream = tiny_engine.stream("two words. " * 50, seed=1, max_steps=8)
    found = next(stream).steps + next(stream).steps
    tiny_engine.synthesize("three. " * 60, seed=2, max_steps=8)
    assert not tiny_engine._speaker._loop.busy
    assert 1 < len(clips) <= 2 * tiny_engine.info.limits.max_batch
    assert found + sum(chunk.steps for chunk in stream) > 2 * 50
    assert not clips


def test_the_first_segment_is_alone_until_it_sounds(engine):
    """Steps of one row are the fastest; then the others begin."""
    stream, loop = engine.stream(TEXT, seed=1), engine._speaker._loop
    next(stream)
    assert len(loop._active) + len(loop._waiting) == 1
    next(stream)
    assert len(loop._active) == 3
    stream.close()


@pytest.mark.parametrize("lookahead", [None, 5])
def test_rows_have_the_same_mates_whether_streamed_or_not(tiny_engine, lookahead, monkeypatch):
    """So that they are rounded alike where rounding depends on the batch."""
    runner, calls = tiny_engine._backend.runner, []
    step, prefill = runner.step, runner.prefill
    monkeypatch.setattr(runner, "step", lambda count: calls.append(count) or step(count))
    monkeypatch.setattr(runner, "prefill", lambda *given: calls.append(len(given[2])) or prefill(*given))
    text, options = "two words. and three more. one. " * 8, {"seed": 3, "max_steps": 60, "lookahead": lookahead}
    whole, wanted = tiny_engine.synthesize(text, **options), list(calls)
    calls.clear()
    assert np.array_equal(joined(tiny_engine.stream(text, **options)), whole.samples)
    assert calls == wanted


def test_closing_a_stream_frees_its_row_and_harms_no_other(engine):
    alone = joined(engine.stream(TEXT, seed=8))
    first, second = engine.stream(TEXT, seed=7), engine.stream(TEXT, seed=8)
    next(first)
    found = [next(second)]
    loop = engine._speaker._loop
    first.close()
    assert {item.request.seed for item in (*loop._active, *loop._waiting)} == {8}
    found += second
    assert np.array_equal(joined(found), alone)
    assert not engine._speaker._loop.busy


def test_streams_that_take_turns_and_calls_in_between_do_not_influence_each_other(engine):
    seeds = (11, 12, 13)
    alone = {seed: engine.synthesize(TEXT, seed=seed).samples for seed in seeds}
    streams = {seed: engine.stream(TEXT, seed=seed) for seed in seeds}
    found = {seed: [] for seed in seeds}
    while streams:
        for seed, stream in list(streams.items()):
            chunk = next(stream, None)
            if chunk is None:
                del streams[seed]
            else:
                found[seed].append(chunk)
        between = engine.synthesize("good morning", seed=11)
    assert np.array_equal(between.samples, engine.synthesize("good morning", seed=11).samples)
    for seed in seeds:
        assert np.array_equal(joined(found[seed]), alone[seed])


def test_threads_share_the_batch_and_get_what_they_would_get_alone(engine):
    alone = {seed: engine.synthesize(SHORT, seed=seed).samples for seed in range(5)}
    found = {}

    def speak(seed):
        if seed % 2:
            found[seed] = joined(engine.stream(SHORT, seed=seed))
        else:
            found[seed] = engine.synthesize(SHORT, seed=seed).samples

    at_once(speak, range(5))
    assert all(np.array_equal(found[seed], alone[seed]) for seed in range(5))


def test_a_turn_always_gets_somewhere_though_others_wait(engine, monkeypatch):
    """As when two streams do nothing but wait for each other."""
    monkeypatch.setattr(FairLock, "wanted", True)
    wanted = engine.synthesize(TEXT, seed=3).samples
    assert np.array_equal(joined(engine.stream(TEXT, seed=3)), wanted)


def test_what_is_wrong_is_said_before_the_first_chunk(engine):
    with pytest.raises(UsageError, match="speed"):
        engine.stream("good morning", speed=11)
    with pytest.raises(UsageError, match="expected SynthesisOptions"):
        engine.stream("good morning", {"seed": 1})
    with pytest.raises(TextError):
        engine.stream("你好")


def test_a_segment_that_is_not_a_number_ends_the_stream_with_an_error(demo_set):
    with Engine.load(demo_set) as small:
        job = small._prepare("good morning. the engine is ready", SynthesisOptions(seed=1))
        job = replace(job, requests=(job.requests[0], spoiled(job.requests[1])))
        stream = small._speaker.stream(job, SynthesisOptions(seed=1))
        found = []
        with pytest.raises(GenerationError, match="'the engine is ready'"):
            found.extend(stream)
        good = small.synthesize("good morning.", seed=1).samples
        assert np.array_equal(joined(found)[: len(good)], good)
        assert small.synthesize("the engine is ready", seed=1).steps > 0


def test_of_a_text_that_fails_no_more_segments_are_begun(tiny_set):
    """Its mates in the batch are spoken to the end."""
    options = SynthesisOptions(seed=1, max_steps=8)
    with Engine.load(tiny_set) as tiny:
        bad, good = (tiny._prepare("two words. " * 30, options) for _ in range(2))
        first, second, *others = bad.requests
        bad = replace(bad, requests=(first, spoiled(second), *others))
        failed, spoken = tiny._speaker.speak([bad, good], options, lambda stage: None)
        assert failed.submitted < 15
        with pytest.raises(GenerationError):
            failed.audio()
        assert np.array_equal(spoken.audio().samples, tiny.synthesize("two words. " * 30, options).samples)


def test_a_failure_of_the_loop_reaches_every_stream_and_the_next_call_works(demo_set, monkeypatch):
    with Engine.load(demo_set) as small:
        wanted = small.synthesize(TEXT, seed=1).samples
        first, second = small.stream(TEXT, seed=1), small.stream(TEXT, seed=2)
        next(first), next(second)
        with monkeypatch.context() as patch:

            def breaks(count):
                raise TrtTtsError("the runner broke")

            patch.setattr(small._backend.runner, "step", breaks)
            with pytest.raises(TrtTtsError, match="the runner broke"):
                list(first)
        with pytest.raises(TrtTtsError, match="the runner broke"):
            list(second)
        assert np.array_equal(small.synthesize(TEXT, seed=1).samples, wanted)


def test_a_closed_engine_ends_its_streams_with_an_error(demo_set):
    small = Engine.load(demo_set)
    stream = small.stream(TEXT, seed=1)
    next(stream)
    small.close()
    with pytest.raises(TrtTtsError, match="closed"):
        next(stream)
    with pytest.raises(TrtTtsError, match="closed"):
        small.stream(TEXT)


def test_refining_waits_for_what_is_under_way(tiny_set):
    with Engine.load(tiny_set) as tiny:
        options = {"seed": 4, "min_steps": 60, "max_steps": 60}
        alone = joined(tiny.stream("two words", **options))
        stream = tiny.stream("two words", **options)
        found = [next(stream)]
        assert tiny.synthesize("one", seed=4, max_steps=5, refine=True).text != "one"
        found += stream
        assert np.array_equal(joined(found), alone)


def test_a_stream_that_the_collector_finds_while_another_speaks_frees_its_rows(engine, monkeypatch):
    """It is closed by whatever thread collects it, here the one that has the turn."""
    stream = engine.stream(TEXT, seed=21)
    next(stream)
    loop, step = engine._speaker._loop, engine._backend.runner.step
    streams = [stream]
    del stream

    def collecting(count):
        streams.clear()
        return step(count)

    monkeypatch.setattr(engine._backend.runner, "step", collecting)
    engine.synthesize("good morning", seed=1)
    assert 21 not in {item.request.seed for item in (*loop._active, *loop._waiting)}
    assert not loop.busy


def test_a_call_that_its_own_progress_ends_frees_its_rows(engine):
    class EnoughError(Exception):
        pass

    def stop(stage):
        raise EnoughError

    with pytest.raises(EnoughError):
        engine.synthesize(TEXT * 5, seed=1, progress=stop)
    assert not engine._speaker._loop.busy


def test_a_stream_begins_while_a_long_call_of_another_thread_goes_on(engine):
    """In the midst of a segment."""
    done, options = [], {"seed": 1, "min_steps": 1500, "max_steps": 1500}
    long = threading.Thread(target=lambda: done.append(engine.synthesize("good morning", **options)))
    long.start()
    while not engine._speaker._loop.busy:
        pass
    stream = engine.stream("good morning", seed=2)
    next(stream)
    assert not done
    stream.close()
    long.join()
    assert done


def test_no_call_returns_before_another_thread_has_decoded_its_sound(tiny_set, monkeypatch):
    """A sequence has ended a little earlier than its sound is there."""
    options = {"seed": 3, "min_steps": 60, "max_steps": 60}
    with Engine.load(tiny_set) as tiny:
        wanted = tiny.synthesize("hi there", **options).samples
        decode, turn, rows = tiny._backend.decode_hidden, tiny._speaker._turn, tiny._speaker._loop._active
        ended, found = threading.Event(), {}

        def slowly(hidden, window):
            if threading.current_thread().name == "other" and any(row.ended and row.request.seed == 3 for row in rows):
                ended.set()
                time.sleep(0.2)
            return decode(hidden, window)

        @contextmanager
        def turn_that_leaves_the_rest_to_the_other():
            with turn():
                yield
            if threading.current_thread().name != "other":
                ended.wait(20)

        monkeypatch.setattr(tiny._backend, "decode_hidden", slowly)
        monkeypatch.setattr(tiny._speaker, "_turn", turn_that_leaves_the_rest_to_the_other)

        def call(index):
            if index == 0:
                found[0] = tiny.synthesize("hi there", **options).samples
            else:
                threading.current_thread().name = "other"
                while not rows and not found:
                    time.sleep(0.001)
                tiny.synthesize("hi", seed=4, min_steps=90, max_steps=90)

        at_once(call, range(2))
    assert ended.is_set() and np.array_equal(found[0], wanted)
