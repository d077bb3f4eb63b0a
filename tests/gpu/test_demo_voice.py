"""The demo voice on a GPU against the CPU's FP32 set: ten seeds, alone and in a batch, and FP16 with codes forced."""

from dataclasses import replace

import numpy as np
import pytest

from tests.conftest import build_with_tensorrt
from tests.gpu.test_engine import codes_of
from tests.reference_case import snr
from trt_tts import Engine, SynthesisOptions
from trt_tts.demo import heldout_sentences
from trt_tts.generation import Sampling, generate
from trt_tts.gpu.hidden_states import States

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
SEEDS = range(10)
LEAST_TOP1 = 0.99


@pytest.fixture(scope="module")
def cpu(demo_set):
    with Engine.load(demo_set) as engine:
        yield engine


@pytest.fixture(scope="module")
def fp32(tmp_path_factory, demo, demo_set):
    with Engine.load(build_with_tensorrt(tmp_path_factory, demo, "fp32", demo_set, max_batch=4)) as engine:
        engine.warm_up()
        yield engine


@pytest.fixture(scope="module")
def fp16(tmp_path_factory, demo, demo_set):
    with Engine.load(build_with_tensorrt(tmp_path_factory, demo, "fp16", demo_set, max_batch=4)) as engine:
        yield engine


def requests(engine, texts, seeds):
    return [
        replace(engine._prepare(text, SynthesisOptions(seed=seed)).requests[0], seed=seed)
        for text, seed in zip(texts, seeds, strict=True)
    ]


@pytest.mark.parametrize("rows", [1, 4])
def test_codes_are_those_of_the_cpu_for_ten_seeds(cpu, fp32, rows):
    asked = requests(cpu, heldout_sentences(10), SEEDS)
    wanted, found = (codes_of(engine, asked, rows) for engine in (cpu, fp32))
    for index in SEEDS:
        assert np.array_equal(wanted[index], found[index]), index


def test_sound_is_that_of_the_cpu(cpu, fp32):
    for seed, text in zip(SEEDS, heldout_sentences(10), strict=True):
        wanted, found = (engine.synthesize(text, seed=seed).samples for engine in (cpu, fp32))
        assert snr(wanted, found) > 100


def states_of(engine, states, steps):
    """float32 [steps, E] from the GPU."""
    backend, width = engine._backend, engine._manifest.config.gpt.hidden_size
    device = backend.device
    target, pinned = device.allocate(4 * steps * width), device.allocate_pinned(4 * steps * width)
    backend.runner.states.gather(states, target)
    device.driver.copy_down(pinned, target, device.stream)
    device.synchronize()
    found = pinned.array.view(np.float32).reshape(steps, width).copy()
    device.free(target)
    device.free_pinned(pinned)
    return found


def forced(engine, request, codes):
    """The most likely codes and the hidden state after each step of `codes`, whatever was drawn."""
    runner, drawn, hidden = engine._backend.runner, [], []
    with engine._backend.activated():
        runner.reset()
        runner.sampling[0], runner.noise[0], runner.allow_end[0] = Sampling(0.0, 1.0, 50, 1.0).row(), 0, True
        prompt = request.prompt()
        ticket = runner.prefill(0, 0, prompt.embedded, prompt.codes, prompt.is_code)
        for step in codes:
            drawn.append(ticket.codes()[0])
            hidden.append(states_of(engine, States(0, runner.states.now, 1), 1)[0])
            nothing = np.zeros((1, prompt.embedded.shape[1]), np.float32)
            ticket = runner.extend(0, 1, nothing, step[None], np.ones(1, np.bool_))
        drawn.append(ticket.codes()[0])
    return np.array(drawn), np.array(hidden)


def test_fp16_with_codes_forced_mostly_agrees_with_fp32(cpu, fp32, fp16):
    """Of distributions: sampling and penalty are off."""
    right = count = 0
    signal = noise = 0.0
    for asked in requests(cpu, heldout_sentences(12)[::2], range(6)):
        codes = dict(generate(cpu._backend.runner, [asked], 1))[0].codes
        (wanted, exact), (found, near) = (forced(engine, asked, codes) for engine in (fp32, fp16))
        right, count = right + int((wanted == found).sum()), count + wanted.size
        signal, noise = signal + float((exact**2).sum()), noise + float(((exact - near) ** 2).sum())
    ratio = 10 * np.log10(signal / noise)
    print(f"FP16: top-1 {right / count:.2%} of {count} codes, hidden states {ratio:.1f} dB above their difference")
    assert right / count >= LEAST_TOP1
    assert ratio > 40


def test_nothing_is_allocated_in_500_calls_of_random_length(emulator, fp32):
    kinds = ("device_allocations", "pinned_allocations", "events_live", "graphs_live", "streams_live")
    before, random, texts = [emulator.stat(name) for name in kinds], np.random.default_rng(0), heldout_sentences(20)
    for seed in range(500):
        chosen = [texts[i] for i in random.integers(0, 20, 1 + seed % 3)]
        fp32.synthesize_batch(chosen, seed=seed, max_steps=int(random.integers(1, 20)))
    assert [emulator.stat(name) for name in kinds] == before
    assert emulator.stat("unpinned_copies") == emulator.stat("faults") == 0
