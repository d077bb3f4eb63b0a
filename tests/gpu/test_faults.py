"""Every driver call of loading, warming up and speaking fails once, on the emulated GPU."""

import os

import numpy as np
import pytest

from trt_tts import Engine, TrtTtsError
from trt_tts.errors import CudaError, DeviceLostError, DeviceMemoryError

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
LIVE = ("device_live", "pinned_live", "streams_live", "events_live", "graphs_live", "contexts_retained")
INVALID, OUT_OF_MEMORY, LOST = 1, 2, 719
OPTIONS = {"seed": 3, "min_steps": 4, "max_steps": 4}


def live(emulator):
    return {name: emulator.stat(name) for name in LIVE}


def calls_of(emulator, work):
    emulator.start_log()
    work()
    return emulator.log()


def unlike_context(name):
    """After a push, pop or release that failed, CUDA leaves nothing to do."""
    return not name.startswith(("cuCtx", "cuDevicePrimaryCtx"))


def retries():
    """pycuda collects garbage and tries again where memory is short."""
    return os.environ["TRT_TTS_CUDA"] == "pycuda"


@pytest.mark.parametrize("code", [INVALID, OUT_OF_MEMORY])
def test_loading_fails_with_a_typed_error_and_leaves_nothing(emulator, tiny_trt_set, code):
    before = live(emulator)
    names = calls_of(emulator, lambda: Engine.load(tiny_trt_set).close())
    loading = names.index("cuStreamDestroy")
    for nth, name in enumerate(names[:loading], 1):
        if not unlike_context(name) or name == "cuMemFreeHost":
            continue
        emulator.fail(nth, code)
        try:
            Engine.load(tiny_trt_set).close()
        except TrtTtsError as error:
            assert not isinstance(error, DeviceLostError), name
            if code == OUT_OF_MEMORY and name in ("cuMemAlloc", "cuMemHostAlloc"):
                assert isinstance(error, DeviceMemoryError), name
        else:
            assert name in CLOSING or (code == OUT_OF_MEMORY and retries()), name
        emulator.stop_failing()
        assert live(emulator) == before, name
    Engine.load(tiny_trt_set).close()
    assert emulator.stat("unpinned_copies") == 0


CLOSING = ("cuStreamSynchronize", "cuMemFree", "cuEventDestroy", "cuGraphExecDestroy")
"""What also happens while closing, where failures are swallowed."""


def test_warming_up_goes_on_without_graphs_or_fails_and_the_next_call_works(emulator, tiny_trt_set):
    with Engine.load(tiny_trt_set) as engine:
        wanted = engine.synthesize("one", **OPTIONS).samples
    with Engine.load(tiny_trt_set) as engine:
        names = calls_of(emulator, engine.warm_up)
    outcomes = set()
    for nth, name in enumerate(names, 1):
        if not unlike_context(name):
            continue
        with Engine.load(tiny_trt_set) as engine:
            emulator.fail(nth, INVALID)
            try:
                engine.warm_up()
                outcomes.add("works")
                assert "without CUDA graphs" in engine.info.reason, name
            except CudaError:
                outcomes.add("fails")
            except TrtTtsError:
                outcomes.add("fails")
            emulator.stop_failing()
            assert np.array_equal(engine.synthesize("one", **OPTIONS).samples, wanted), name
    assert outcomes == {"works", "fails"}


def test_speaking_fails_with_a_typed_error_and_the_next_call_works(emulator, gpu):
    wanted = gpu.synthesize("one", **OPTIONS).samples
    names = calls_of(emulator, lambda: gpu.synthesize("one", **OPTIONS))
    before, failed = live(emulator), 0
    for nth, name in enumerate(names, 1):
        if not unlike_context(name):
            continue
        emulator.fail(nth, INVALID)
        with pytest.raises(TrtTtsError) as caught:
            gpu.synthesize("one", **OPTIONS)
        emulator.stop_failing()
        assert isinstance(caught.value, CudaError), name
        assert not isinstance(caught.value, DeviceLostError), name
        assert np.array_equal(gpu.synthesize("one", **OPTIONS).samples, wanted), name
        failed += 1
    assert failed > 30
    assert live(emulator) == before


def test_a_batch_fails_with_a_typed_error_and_the_next_one_works(emulator, gpu):
    texts = ["one", "two words", "three short words", "four"]
    wanted = gpu.synthesize_batch(texts, **OPTIONS)
    names = calls_of(emulator, lambda: gpu.synthesize_batch(texts, **OPTIONS))
    for nth in range(1, len(names) + 1, 3):
        if not unlike_context(names[nth - 1]):
            continue
        emulator.fail(nth, INVALID)
        with pytest.raises(CudaError):
            gpu.synthesize_batch(texts, **OPTIONS)
        emulator.stop_failing()
        found = gpu.synthesize_batch(texts, **OPTIONS)
        assert all(np.array_equal(a.samples, b.samples) for a, b in zip(found, wanted, strict=True)), names[nth - 1]


@pytest.mark.parametrize("first_use", [{"use_decoder": False}, {"refine": True}])
def test_a_graph_that_cannot_be_loaded_at_its_first_use_leaves_nothing(emulator, tiny_trt_set, first_use):
    """Until it can; the calls before that one have loaded all else."""
    with Engine.load(tiny_trt_set) as engine:
        wanted = engine.synthesize("one", **OPTIONS).samples
        names = calls_of(emulator, lambda: engine.synthesize("one", **OPTIONS, **first_use))
    allocations = [nth for nth, name in enumerate(names, 1) if name in ("cuMemAlloc", "cuMemHostAlloc")]
    assert len(allocations) >= 3
    for nth in allocations:
        with Engine.load(tiny_trt_set) as engine:
            engine.synthesize("one", **OPTIONS)
            before = live(emulator)
            emulator.fail(nth, OUT_OF_MEMORY)
            try:
                engine.synthesize("one", **OPTIONS, **first_use)
                assert retries(), names[nth - 1]
            except DeviceMemoryError:
                assert live(emulator) == before, names[nth - 1]
            emulator.stop_failing()
            engine.synthesize("one", **OPTIONS, **first_use)
            assert np.array_equal(engine.synthesize("one", **OPTIONS).samples, wanted)


def test_what_fails_for_one_call_leaves_the_others_alone(emulator, tiny_trt_set):
    """A graph that cannot be loaded is not needed by the stream beside."""
    options = {"seed": 3, "min_steps": 90, "max_steps": 90}
    with Engine.load(tiny_trt_set) as engine:
        wanted = engine.synthesize("one", **options).samples
    with Engine.load(tiny_trt_set) as engine:
        stream = engine.stream("one", **options)
        found = [next(stream)]
        real = engine._backend.device.allocate

        def short_of_memory(size):
            raise DeviceMemoryError("none left", OUT_OF_MEMORY)

        engine._backend.device.allocate = short_of_memory
        with pytest.raises(DeviceMemoryError):
            engine.synthesize("two", **OPTIONS, use_decoder=False)
        engine._backend.device.allocate = real
        found += stream
        assert np.array_equal(np.concatenate([chunk.samples for chunk in found]), wanted)


def test_a_lost_gpu_stays_lost_for_the_engine_and_closing_ends(emulator, tiny_trt_set):
    engine = Engine.load(tiny_trt_set)
    emulator.fail(30, LOST, sticky=True)
    with pytest.raises(DeviceLostError, match="Restart this program"):
        engine.synthesize("one", **OPTIONS)
    emulator.stop_failing()
    with pytest.raises(DeviceLostError):
        engine.synthesize("one", **OPTIONS)
    engine.close()
    Engine.load(tiny_trt_set).close()


def test_work_that_cannot_be_captured_runs_without_graphs_and_sounds_the_same(emulator, gpu, tiny_trt_set, monkeypatch):
    wanted = gpu.synthesize("two words", seed=2, max_steps=20)
    monkeypatch.setenv("EMULATED_TENSORRT_UNCAPTURABLE", "1")
    with Engine.load(tiny_trt_set) as engine:
        engine.warm_up()
        assert "without CUDA graphs (" in engine.info.reason
        before = emulator.stat("graph_launches")
        assert np.array_equal(engine.synthesize("two words", seed=2, max_steps=20).samples, wanted.samples)
        assert emulator.stat("graph_launches") == before
