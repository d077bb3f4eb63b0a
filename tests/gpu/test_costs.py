"""What a decode step costs in driver calls, bytes and allocations, counted by the emulated GPU."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from tests.cuda_emulator.idle_set import write_idle_set
from tests.gpu.test_engine import requests
from trt_tts import Engine
from trt_tts.generation import Prompt, Request, Sampling, generate
from trt_tts.gpu.backend import GpuBackend
from trt_tts.manifest import Limits
from trt_tts.model_config import ModelConfig

pytestmark = pytest.mark.gpu
MOST_CALLS, MOST_UP, MOST_DOWN = 6, 1024, 16


def counts(emulator):
    return {name: emulator.stat(name) for name in ("calls", "bytes_up", "bytes_down", "graph_launches")}


def cost(emulator, work):
    before = counts(emulator)
    work()
    return {name: value - before[name] for name, value in counts(emulator).items()}


def per_step(emulator, backend, asked, rows, steps=40):
    """The difference that 40 more steps make, divided by 40: prefill and the end cancel out."""

    def run(count):
        with backend.activated():
            for _, result in generate(backend.runner, [replace(asked, min_steps=99, max_steps=count)] * rows, rows):
                assert len(result.codes) == count
            backend.device.synchronize()

    few, many = (cost(emulator, lambda count=count: run(count)) for count in (10, 10 + steps))
    return {name: (many[name] - few[name]) / steps for name in few}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_step_takes_six_calls_and_few_bytes(emulator, gpu, rows):
    (asked,) = requests(gpu, ["two words"])
    require_few(per_step(emulator, gpu._backend, asked, rows), rows, 1 if rows == 1 else gpu.info.limits.max_batch)


def test_so_it_does_at_the_published_sizes(emulator, tmp_path):
    """With plans that do nothing."""
    config, limits = ModelConfig(), Limits(max_batch=4, capacity=2048, prefill_chunk=128)
    before = emulator.stat("device_live"), emulator.stat("pinned_live")
    manifest = write_idle_set(tmp_path, config, limits)
    with closing(GpuBackend(tmp_path, manifest, 0, None)) as backend:
        with backend.activated():
            backend.warm_up()
        prompt = Prompt.of(np.zeros((32, 768), np.float32), np.zeros((0, 4), np.int32))
        asked = Request(lambda: prompt, Sampling(0.3, 0.7, 20, 1.05), seed=0, segment=0, max_steps=1, min_steps=1)
        for rows in (1, 4):
            require_few(per_step(emulator, backend, asked, rows), rows, rows)
        for where, stat, then in (("device", "device_live", before[0]), ("pinned", "pinned_live", before[1])):
            assert emulator.stat(stat) - then == sum(part.bytes for part in backend.memory() if part.where == where)
    assert (emulator.stat("device_live"), emulator.stat("pinned_live")) == before


def require_few(found, rows, form):
    """`form` is the number of rows that the graph runs with."""
    assert found["calls"] <= MOST_CALLS
    assert found["graph_launches"] == 1
    assert 800 * form <= found["bytes_up"] <= MOST_UP * form
    assert found["bytes_down"] == MOST_DOWN * rows


def test_nothing_is_allocated_after_warming_up(emulator, gpu):
    kinds = ("device_allocations", "pinned_allocations", "events_live", "graphs_live", "streams_live")
    before = [emulator.stat(name) for name in kinds]
    random = np.random.default_rng(0)
    for seed in range(60):
        texts = ["one", "two words"][: random.integers(1, 3)]
        gpu.synthesize_batch(texts, seed=seed, max_steps=int(random.integers(1, 60)))
    assert [emulator.stat(name) for name in kinds] == before
    assert emulator.stat("unpinned_copies") == emulator.stat("faults") == 0


def test_warming_up_captures_every_graph(emulator, tiny_trt_set):
    with Engine.load(tiny_trt_set) as engine:
        before = emulator.stat("graphs_live")
        engine.warm_up()
        decode = engine._backend.runner.decode
        assert emulator.stat("graphs_live") - before == len(decode.spans) * len(decode.forms) == 4


def test_live_memory_is_what_the_engine_says(emulator, tiny_trt_set):
    def live():
        return emulator.stat("device_live"), emulator.stat("pinned_live")

    def told(engine):
        parts = engine.info.memory
        return tuple(sum(part.bytes for part in parts if part.where == where) for where in ("device", "pinned"))

    before = live()
    with Engine.load(tiny_trt_set) as engine:
        for work in (
            lambda: None,
            engine.warm_up,
            lambda: engine.synthesize("one", seed=0, max_steps=4, use_decoder=False),
            lambda: engine.synthesize("one", seed=0, max_steps=4, refine=True),
        ):
            work()
            assert told(engine) == tuple(now - then for now, then in zip(live(), before, strict=True))
    assert live() == before
