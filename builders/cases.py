"""Makes the self-test's cases: real inputs at several shapes of each profile, and the FP32 graphs' results."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.manifest import Limits
from trt_tts.model_config import ModelConfig
from trt_tts.selftest import WRITTEN, Case, Feed

from .profiles import PREFILL_BATCH, Profile, profiles_of
from .samples import Spoken, sampler_feed

_CACHE = re.compile(r"[kv]_\d+")


def make_cases(
    graph: str, file: Path, config: ModelConfig, limits: Limits, feeds: list[Feed], spoken: list[Spoken]
) -> list[Case]:
    """The cases of one graph.

    Args:
        graph: which.
        file: its FP32 form.
        config: the model's sizes.
        limits: the set's.
        feeds: real inputs, as `samples.feeds_of` gives them.
        spoken: the sentences behind them.
    """
    session = open_session(file, usable_threads())
    return [
        _with_results(case, session, config) for case in _CASES.get(graph, _plain)(graph, config, limits, feeds, spoken)
    ]


def execute_on_cpu(case: Case, session: Any, config: ModelConfig) -> tuple[Feed, ...]:
    """Run a case on an ONNX Runtime session of a graph whose caches may be of any length."""
    gpt, caches = config.gpt, {}
    names = [item.name for item in session.get_inputs() if _CACHE.fullmatch(item.name)]
    rows = len(case.calls[0].get("start", ()))
    for i, name in enumerate(names):
        caches[name] = case.cache(i, rows, gpt.num_attention_heads, case.span, gpt.head_dim)
    outputs = [item.name for item in session.get_outputs()]
    found = []
    for call in case.calls:
        values = dict(zip(outputs, session.run(outputs, {**call, **caches}), strict=True))
        caches = {name: values.pop(f"{name}_out") for name in names}
        found.append(values)
    if names:
        found[-1][WRITTEN] = np.stack([caches[name][:, :, case.written] for name in names])
    return tuple(found)


def _with_results(case: Case, session: Any, config: ModelConfig) -> Case:
    results = execute_on_cpu(case, session, config)
    kept = tuple({name: value for name, value in found.items() if name != "recent_out"} for found in results)
    return Case(case.graph, case.profile, case.shape, case.span, case.history, case.calls, kept)


def _gpt_cases(graph: str, config: ModelConfig, limits: Limits, feeds: list[Feed], spoken: list[Spoken]) -> list[Case]:
    prefill, *decodes = profiles_of(graph, config, limits)
    chunk = prefill.shapes["rows"].most[1]
    cases = [_gpt_case(prefill, 1, chunk, spoken), _gpt_case(prefill, PREFILL_BATCH, 7, spoken)]
    for profile in decodes:
        cases.append(_gpt_case(profile, 1, 1, spoken))
    if limits.max_batch > 1:
        cases.append(_gpt_case(decodes[0], limits.max_batch, 1, spoken))
    return cases


def _gpt_case(profile: Profile, rows: int, steps: int, spoken: list[Spoken]) -> Case:
    """Two calls that end at the last positions of the profile's span, or that start a sequence."""
    span = profile.shapes["span"].least[0]
    history = 0 if profile.name == "prefill" else span - 2
    calls = tuple(_gpt_call(rows, steps, span, start, spoken) for start in (history, history + steps))
    shape = f"{rows} x {steps} of {span}"
    return Case("gpt", profile.name, shape, span, history, calls if history or 2 * steps <= span else calls[:1], ())


def _gpt_call(rows: int, steps: int, span: int, start: int, spoken: list[Spoken]) -> Feed:
    sentences = [spoken[row % len(spoken)] for row in range(rows)]
    books, width = sentences[0].codes.shape[1], sentences[0].embedded.shape[1]
    codes, embedded = np.zeros((rows, steps, books), np.int32), np.zeros((rows, steps, width), np.float32)
    is_code = np.zeros((rows, steps), np.bool_)
    for row, sentence in enumerate(sentences):
        prompt = sentence.embedded[:steps] if start == 0 else sentence.embedded[:0]
        embedded[row, : len(prompt)] = prompt
        count = steps - len(prompt)
        codes[row, len(prompt) :] = sentence.codes[np.arange(start, start + count) % len(sentence.codes)]
        is_code[row, len(prompt) :] = True
    return {
        "codes_in": codes,
        "rows": embedded,
        "is_code": is_code,
        "start": np.full(rows, start, np.int32),
        "span": np.arange(span, dtype=np.int32),
        "last": np.full(rows, steps - 1, np.int32),
        **sampler_feed(rows, books),
    }


def _windows(graph: str, config: ModelConfig, limits: Limits, feeds: list[Feed], spoken: list[Spoken]) -> list[Case]:
    """A window of one step, one of a few and the longest; shorter recordings are repeated."""
    (name, array), axis = next(iter(feeds[0].items())), 2 if graph == "codec_vq" else 1
    (profile,) = profiles_of(graph, config, limits)
    lengths = sorted({1, 7, profile.shapes[name].most[axis]})
    cases = []
    for length in lengths:
        window = np.take(array, np.arange(length) % array.shape[axis], axis=axis)
        cases.append(Case(graph, profile.name, f"{length} steps", 0, 0, ({name: window},), ()))
    return cases


def _plain(graph: str, config: ModelConfig, limits: Limits, feeds: list[Feed], spoken: list[Spoken]) -> list[Case]:
    (profile,) = profiles_of(graph, config, limits)
    return [Case(graph, profile.name, "as spoken", 0, 0, (feeds[0],), ())]


_CASES = {"gpt": _gpt_cases, "codec": _windows, "codec_vq": _windows}
