"""What a decode step costs in driver calls, bytes and allocations, counted by the emulated GPU."""

from dataclasses import replace

import numpy as np
import pytest

from tests.gpu.test_engine import requests
from trt_tts import Engine
from trt_tts.generation import generate

pytestmark = pytest.mark.gpu
MOST_CALLS, MOST_UP, MOST_DOWN = 6, 1024, 16


def counts(emulator):
    return {name: emulator.stat(name) for name in ("calls", "bytes_up", "bytes_down", "graph_launches")}


def cost(emulator, work):
    before = counts(emulator)
    work()
    return {name: value - before[name] for name, value in counts(emulator).items()}


def per_step(emulator, engine, rows, steps=40):
    """The difference that 40 more steps make, divided by 40: prefill and the end cancel out."""
    runner, device = engine._backend.runner, engine._backend.device
    (asked,) = requests(engine, ["two words"])

    def run(count):
        with engine._backend.activated():
            for _ in generate(runner, [replace(asked, min_steps=99, max_steps=count)] * rows, rows):
                pass
            device.synchronize()

    few, many = (cost(emulator, lambda count=count: run(count)) for count in (10, 10 + steps))
    return {name: (many[name] - few[name]) / steps for name in few}


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_step_takes_six_calls_and_few_bytes(emulator, gpu, rows):
    found = per_step(emulator, gpu, rows)
    form = 1 if rows == 1 else gpu.info.limits.max_batch
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
        assert emulator.stat("graphs_live") == 0 or emulator.stat("contexts_retained") > 1
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
