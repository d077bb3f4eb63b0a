from dataclasses import replace

import numpy as np
import pytest

from trt_tts.builders.cases import execute_on_cpu, make_cases
from trt_tts.builders.profiles import profiles_of
from trt_tts.builders.samples import Spoken, feeds_of
from trt_tts.cpu.session import open_session
from trt_tts.manifest import Limits
from trt_tts.selftest import judge

LIMITS = Limits(max_batch=3, capacity=320, prefill_chunk=128, codec_steps=64)
GRAPHS = ["gpt", "codec", "codec_vq", "text_head", "voice_encoder"]


@pytest.fixture(scope="module")
def cases(tiny, tiny_set):
    """Graph -> its cases, from two sentences of random numbers."""
    random, wide = np.random.default_rng(0), tiny.config.gpt.hidden_size
    spoken = [
        Spoken(
            "a text",
            random.standard_normal((prompt, wide)).astype(np.float32),
            random.integers(0, 625, (steps, 4)).astype(np.int32),
            random.standard_normal((steps, wide)).astype(np.float32),
        )
        for prompt, steps in ((20, 12), (9, 5))
    ]
    wavs = [random.standard_normal((1, 6000)).astype(np.float32) / 10]
    return {
        graph: make_cases(
            graph, tiny_set / f"{graph}.onnx", tiny.config, LIMITS, feeds_of(graph, tiny, spoken, wavs), spoken
        )
        for graph in GRAPHS
    }


@pytest.mark.parametrize("graph", GRAPHS)
def test_every_profile_is_tested_at_shapes_it_takes(graph, cases, tiny):
    profiles = {profile.name: profile for profile in profiles_of(graph, tiny.config, LIMITS)}
    assert {case.profile for case in cases[graph]} == profiles.keys()
    for case in cases[graph]:
        for call in case.calls:
            for name, value in call.items():
                shapes = profiles[case.profile].shapes[name]
                assert all(a <= d <= b for a, d, b in zip(shapes.least, value.shape, shapes.most, strict=True)), name


def test_decode_cases_end_at_the_last_position_of_their_span(cases):
    decodes = [case for case in cases["gpt"] if case.profile != "prefill"]
    assert {case.span for case in decodes} == {256, 320}
    assert {len(case.calls[0]["start"]) for case in decodes} == {1, 3}
    for case in decodes:
        assert case.calls[-1]["start"].tolist() == [case.span - 1] * len(case.calls[-1]["start"])
        assert case.history == case.calls[0]["start"][0]


def test_calls_follow_each_other_without_a_gap(cases):
    for case in cases["gpt"]:
        steps = case.calls[0]["codes_in"].shape[1]
        starts = [call["start"][0] for call in case.calls]
        assert starts == [case.history + i * steps for i in range(len(starts))]
        assert starts[-1] + steps <= case.span


@pytest.mark.parametrize("graph", GRAPHS)
def test_expected_results_are_the_graphs_own_and_no_caches(graph, cases, tiny, tiny_set):
    session = open_session(tiny_set / f"{graph}.onnx", 1)
    for case in cases[graph]:
        assert len(case.expected) == len(case.calls)
        assert not any(name.endswith("_out") for expected in case.expected for name in expected)
        result = judge(case, execute_on_cpu(case, session, tiny.config), "fp32")
        assert result.problem is None
        assert result.differing_codes == 0


def test_positions_lost_between_calls_are_noticed(cases, tiny, tiny_set):
    session = open_session(tiny_set / "gpt.onnx", 1)
    case = next(case for case in cases["gpt"] if case.profile == "prefill" and len(case.calls) == 2)
    alone = [execute_on_cpu(replace(case, calls=(call,)), session, tiny.config)[0] for call in case.calls]
    assert judge(case, tuple(alone), "fp16").problem is not None
