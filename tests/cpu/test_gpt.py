import numpy as np
import pytest

from tests.reference_case import Reference
from trt_tts.errors import CapacityError
from trt_tts.generation import generate

HIDDEN_ERROR = 5e-5
"""Measured: 1e-6 on the tiny checkpoint, 1e-5 on the demo voice."""


@pytest.fixture(params=["tiny", "demo_voice"])
def reference(request) -> Reference:
    fixture = {"tiny": "tiny_set", "demo_voice": "demo_set"}[request.param]
    return Reference.of(request.param, request.getfixturevalue(fixture))


@pytest.mark.parametrize("chunk", [1, 7, 16, 512])
@pytest.mark.parametrize("text", [0, 1, 2])
def test_greedy_codes_equal_the_published_implementation(reference, text, chunk):
    runner = reference.runner(chunk=chunk)
    prompt = reference.cases["prompts_with_speaker"][text]
    ((_, result),) = generate(runner, [reference.request(prompt)], rows=1)
    assert np.array_equal(result.codes, reference.vectors[f"greedy_spk_pen1.05_{text}_codes"])
    assert np.abs(result.hidden - reference.vectors[f"greedy_spk_pen1.05_{text}_hidden"]).max() < HIDDEN_ERROR


@pytest.mark.parametrize("penalty", [1.0, 1.05])
@pytest.mark.parametrize("kind", ["spk", "empty"])
def test_greedy_codes_with_and_without_voice_and_penalty(reference, kind, penalty):
    prompts = reference.cases[{"spk": "prompts_with_speaker", "empty": "prompts_without_speaker"}[kind]]
    requests = [reference.request(prompt, penalty) for prompt in prompts]
    for text, result in generate(reference.runner(), requests, rows=1):
        assert np.array_equal(result.codes, reference.vectors[f"greedy_{kind}_pen{penalty}_{text}_codes"])
        assert (
            np.abs(result.hidden - reference.vectors[f"greedy_{kind}_pen{penalty}_{text}_hidden"]).max() < HIDDEN_ERROR
        )


def test_greedy_batch_equals_the_published_batch(reference):
    requests = [reference.request(prompt) for prompt in reference.cases["prompts_with_speaker"]]
    for text, result in generate(reference.runner(rows=3, chunk=7), requests, rows=3):
        assert np.array_equal(result.codes, reference.vectors[f"greedy_batch3_{text}_codes"])


@pytest.mark.parametrize("chunk", [7, 512])
def test_voice_prompt_of_codes_continues_as_the_published_implementation(reference, chunk):
    prompt = f"[Stts][empty_spk]reference text[speed_5]{reference.cases['texts'][0]}[Ptts]"
    request = reference.request(prompt, steps=32, codes=reference.vectors["encoder_codes"].T)
    ((_, result),) = generate(reference.runner(chunk=chunk), [request], rows=1)
    assert np.array_equal(result.codes, reference.vectors["greedy_prompted_codes"])
    assert np.abs(result.hidden - reference.vectors["greedy_prompted_hidden"]).max() < HIDDEN_ERROR


def test_result_does_not_depend_on_what_the_row_held_before(reference):
    runner = reference.runner(rows=2)
    long, short = (
        reference.request(reference.cases["prompts_with_speaker"][i], steps=n) for i, n in ((1, 150), (0, 48))
    )
    fresh = dict(generate(runner, [short], rows=1))[0]
    dict(generate(runner, [long, long], rows=2))
    assert np.array_equal(dict(generate(runner, [short], rows=1))[0].codes, fresh.codes)


def test_decode_past_a_cache_growth_equals_one_large_prefill(reference):
    """150 steps cross the cache's 128-position step; the same codes given as a prompt predict the same next one."""
    request = reference.request(reference.cases["prompts_with_speaker"][0], steps=150)
    stepped = dict(generate(reference.runner(), [request], rows=1))[0]
    known = stepped.codes[:-1]
    prefilled = reference.request(reference.cases["prompts_with_speaker"][0], penalty=1.0, steps=1, codes=known)
    hidden = dict(generate(reference.runner(), [prefilled], rows=1))[0].hidden
    assert np.abs(hidden[0] - stepped.hidden[-1]).max() < HIDDEN_ERROR


def test_prompt_larger_than_the_capacity_is_refused(reference):
    runner = reference.runner(capacity=16)
    request = reference.request(reference.cases["prompts_with_speaker"][2])
    with pytest.raises(CapacityError, match="capacity of 16"):
        list(generate(runner, [request], rows=1))


def test_step_beyond_the_capacity_is_refused_before_it_is_taken(reference):
    runner = reference.runner(capacity=len(reference.embedded(reference.cases["prompts_with_speaker"][0])) + 3)
    request = reference.request(reference.cases["prompts_with_speaker"][0], steps=100)
    with pytest.raises(CapacityError, match="exceed the capacity"):
        list(generate(runner, [request], rows=1))
    assert runner.position[0] == runner.capacity
