from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tests.prompts import spoiled
from tests.reference_case import Reference
from tests.sampler_truth import draw
from trt_tts.errors import TrtTtsError
from trt_tts.generation import DecodeLoop, Prompt, Request, Sampling, generate
from trt_tts.model_config import GptConfig
from trt_tts.random_numbers import gumbel_noise


@pytest.fixture(scope="module")
def demo_reference(demo_set) -> Reference:
    return Reference.of("demo_voice", demo_set)


def sampled(reference, text, seed, steps=40, least=0):
    request = reference.request(reference.cases["prompts_with_speaker"][text])
    return replace(request, sampling=Sampling(0.7, 0.7, 20, 1.05), seed=seed, max_steps=steps, min_steps=least)


def test_rows_equal_their_solo_runs_whoever_their_mates_are(demo_reference):
    requests = [sampled(demo_reference, i % 3, seed=i, steps=20 + 17 * i) for i in range(6)]
    alone = [dict(generate(demo_reference.runner(), [request], rows=1))[0] for request in requests]
    together = dict(generate(demo_reference.runner(rows=4), requests, rows=4))
    assert sorted(together) == list(range(6))
    for i, solo in enumerate(alone):
        assert np.array_equal(together[i].codes, solo.codes)
        assert together[i].hidden == pytest.approx(solo.hidden, abs=1e-4)


def test_rows_keep_their_own_sampling_when_they_move(demo_reference):
    """The first row ends early; the others move up and go on with their own temperatures."""
    settings = [(0.1, 8), (1.5, 40), (0.3, 40), (0.9, 40)]
    requests = [
        replace(
            sampled(demo_reference, i % 3, i, steps, steps + 1), sampling=Sampling(temperature, 0.9, 30, 1.0 + i / 9)
        )
        for i, (temperature, steps) in enumerate(settings)
    ]
    together = dict(generate(demo_reference.runner(rows=4), requests, rows=4))
    for i, request in enumerate(requests):
        assert np.array_equal(together[i].codes, dict(generate(demo_reference.runner(), [request], rows=1))[0].codes)


def test_int8_rows_part_from_their_solo_runs_only_at_a_tie(demo, demo_int8_set):
    """Equal where the kernel rounds a batch as it rounds one row; elsewhere only a tie may fall the other way."""
    reference = Reference.of("demo_voice", demo_int8_set)
    requests = [sampled(reference, i % 3, seed=i, steps=60) for i in range(8)]
    heads = np.stack([demo.tensors["embed"][f"head_code.{i}.weight"] for i in range(4)])
    together = dict(generate(reference.runner(rows=4), requests, rows=4))
    for i, request in enumerate(requests):
        solo = dict(generate(reference.runner(), [request], rows=1))[0]
        common = min(len(solo.codes), len(together[i].codes))
        parted = np.flatnonzero((solo.codes[:common] != together[i].codes[:common]).any(axis=1))
        if len(parted):
            assert margins(request, heads, solo, int(parted[0]), together[i].codes[parted[0]]) < 1e-3


def margins(request, heads, result, step, other):
    """The largest perturbed top-2 margin over the codebooks that differ at `step`."""
    noise = gumbel_noise(request.seed, request.segment, step, 200).reshape(4, 50)
    recent = result.codes[max(0, step - 16) : step]
    drawn = [
        draw(heads[q] @ result.hidden[step], recent[:, q], noise[q], 0.7, 0.7, 20, 1.05, step >= 1) for q in range(4)
    ]
    assert [code for code, _ in drawn] == result.codes[step].tolist(), "the re-stated sampler disagrees with the graph"
    return max(margin for q, (_, margin) in enumerate(drawn) if result.codes[step, q] != other[q])


def test_sampled_codes_equal_the_restated_sampler(demo, demo_reference):
    """The whole chain once more in numpy: head, temperature, penalty, top-P, top-K, noise by rank."""
    request = sampled(demo_reference, 1, seed=11, steps=40)
    result = dict(generate(demo_reference.runner(), [request], rows=1))[0]
    heads = np.stack([demo.tensors["embed"][f"head_code.{i}.weight"] for i in range(4)])
    for step in range(len(result.codes)):
        margins(request, heads, result, step, np.full(4, -1))


def test_a_free_row_takes_the_next_request_at_once(demo_reference):
    """Two rows, lengths 30, 5, 5, 5: the short ones pass through the second row while the long one goes on."""
    requests = [sampled(demo_reference, 0, seed=i, steps=n, least=n + 1) for i, n in enumerate((30, 5, 5, 5))]
    assert [index for index, _ in generate(demo_reference.runner(rows=2), requests, rows=2)] == [1, 2, 3, 0]


def test_same_seed_same_codes_other_seed_or_segment_other_codes(demo_reference):
    base = sampled(demo_reference, 1, seed=3)
    variants = [base, base, replace(base, seed=4), replace(base, segment=1)]
    codes = [dict(generate(demo_reference.runner(), [request], rows=1))[0].codes for request in variants]
    assert np.array_equal(codes[0], codes[1])
    assert not np.array_equal(codes[0], codes[2])
    assert not np.array_equal(codes[0], codes[3])


def test_nan_in_one_row_fails_that_row_alone(demo_reference):
    requests = [sampled(demo_reference, i, seed=i, steps=25, least=26) for i in range(3)]
    clean = dict(generate(demo_reference.runner(rows=3), requests, rows=3))
    runner = demo_reference.runner(rows=3)
    mixed = dict(generate(runner, [requests[0], spoiled(requests[1], where=3), requests[2]], rows=3))
    assert [mixed[i].failed for i in range(3)] == [False, True, False]
    for i in (0, 2):
        assert np.array_equal(mixed[i].codes, clean[i].codes)
    after = dict(generate(runner, requests, rows=3))
    assert all(np.array_equal(after[i].codes, clean[i].codes) for i in range(3)), "the NaN stayed in the cache"


def test_infinite_input_fails_the_row(demo_reference):
    request = sampled(demo_reference, 0, seed=0)
    assert dict(generate(demo_reference.runner(), [spoiled(request, np.inf, where=2)], rows=1))[0].failed


@pytest.mark.parametrize("limit", [1, 2, 31])
def test_step_limit_ends_a_row_and_says_so(demo_reference, limit):
    result = dict(generate(demo_reference.runner(), [sampled(demo_reference, 0, 0, limit, limit + 1)], rows=1))[0]
    assert (len(result.codes), result.truncated) == (limit, True)


def test_no_end_before_the_least_steps_and_none_in_the_codes(demo_reference):
    free = dict(generate(demo_reference.runner(), [sampled(demo_reference, 0, 7, steps=200)], rows=1))[0]
    assert not free.truncated
    least = len(free.codes) + 20
    held = dict(generate(demo_reference.runner(), [sampled(demo_reference, 0, 7, 200, least)], rows=1))[0]
    assert len(held.codes) >= least
    assert held.codes.max() < 625


@pytest.mark.parametrize("temperature", [0.0, 1e-12, 1e-3])
def test_temperature_near_zero_takes_the_argmax(demo_reference, temperature):
    prompt = demo_reference.cases["prompts_with_speaker"][0]
    request = replace(demo_reference.request(prompt), sampling=Sampling(temperature, 0.7, 20, 1.05), seed=99)
    result = dict(generate(demo_reference.runner(), [request], rows=1))[0]
    assert np.array_equal(result.codes, demo_reference.vectors["greedy_spk_pen1.05_0_codes"])


@pytest.mark.parametrize(("top_p", "top_k"), [(1e-9, 1), (0.0, 20), (1.0, 0), (0.7, 10_000), (1.0, 50)])
def test_extreme_sampling_parameters_do_not_crash(demo_reference, top_p, top_k):
    request = replace(sampled(demo_reference, 0, 0), sampling=Sampling(1.0, top_p, top_k, 1.05))
    result = dict(generate(demo_reference.runner(), [request], rows=1))[0]
    assert not result.failed
    assert len(result.codes) > 0


class LateRunner:
    """Draws nothing but zeros, one call late; says when old codes are read."""

    lag = 1
    sizes = GptConfig(num_audio_tokens=626)
    capacity = 100

    def __init__(self):
        self.noise, self.sampling = np.zeros((2, 4, 50), np.float32), np.zeros((2, 4), np.float32)
        self.allow_end = np.zeros(2, np.bool_)
        self.run, self.broken, self.read = 0, False, []

    def reset(self):
        self.run += 1

    def _drawn(self, rows):
        run = self.run
        return SimpleNamespace(codes=lambda: self.read.append(run) or np.zeros((rows, 4), np.int32))

    def prefill(self, row, used_rows, embedded, codes, is_code):
        return self._drawn(1)

    def step(self, count):
        if self.broken:
            raise TrtTtsError("broken")
        return self._drawn(count)

    def move(self, source, target):
        pass


def late_request(steps):
    prompt = Prompt.of(np.zeros((3, 8), np.float32), np.zeros((0, 4), np.int32))
    return Request(lambda: prompt, GREEDY, 0, 0, steps, 0)


GREEDY = Sampling(0.0, 0.7, 20, 1.0)


def test_codes_of_a_run_that_broke_or_ended_are_never_read_by_the_next():
    runner = LateRunner()
    loop = DecodeLoop(runner, 2)
    first = loop.submit(late_request(9))
    loop.advance()
    runner.broken = True
    with pytest.raises(TrtTtsError, match="broken"):
        loop.advance()
    assert first.ended and str(first.error) == "broken" and not loop.busy
    runner.broken = False
    runs = []
    for steps in (1, 4):
        generation = loop.submit(late_request(steps))
        runner.read.clear()
        while loop.busy:
            loop.advance()
        runs.append(set(runner.read))
        assert (len(generation.codes), generation.truncated, generation.error) == (steps, True, None)
    cancelled = loop.submit(late_request(50))
    for _ in range(3):
        loop.advance()
    loop.cancel(cancelled)
    assert not loop.busy
    runner.read.clear()
    loop.submit(late_request(2))
    while loop.busy:
        loop.advance()
    assert set(runner.read) == {runner.run} and len(runs) == 2 and all(len(run) == 1 for run in runs)


def test_an_on_end_that_fails_ends_its_own_generation_only():
    loop = DecodeLoop(LateRunner(), 2)

    def fails():
        raise TrtTtsError("no sound")

    bad, good = loop.submit(late_request(3), fails), loop.submit(late_request(5))
    while loop.busy:
        loop.advance()
    assert str(bad.error) == "no sound" and good.error is None
    assert len(good.codes) == 5
