"""Caches and hidden states: where rows lie, against arrays on the host."""

from contextlib import closing

import numpy as np
import pytest

from tests.cuda.test_device import fetch, send
from trt_tts.cuda.device import Device
from trt_tts.gpu.caches import Caches
from trt_tts.gpu.hidden_states import HiddenStates, States
from trt_tts.manifest import Limits
from trt_tts.model_config import GptConfig

pytestmark = pytest.mark.gpu
SIZES = GptConfig(hidden_size=64, num_attention_heads=2, num_hidden_layers=3)
LIMITS = Limits(max_batch=3, capacity=10, prefill_chunk=4)


@pytest.fixture
def device():
    with closing(Device()) as opened, opened.activated():
        yield opened


def test_rows_of_the_caches_are_cleared_and_moved_alone(device):
    caches = Caches(device, SIZES, LIMITS, 4)
    expected = np.zeros((6, 3, 2, 10, 32), np.float32)
    assert caches.bytes == expected.nbytes
    assert np.array_equal(fetch(device, caches.address, expected), expected)
    expected[:] = np.arange(expected.size).reshape(expected.shape)
    device.driver.copy(caches.address, send(device, expected), expected.nbytes, device.stream)
    caches.move(2, 0)
    caches.clear_row(1)
    expected[:, 0], expected[:, 1] = expected[:, 2], 0
    assert np.array_equal(fetch(device, caches.address, expected), expected)
    for layer in range(3):
        for i, kind in enumerate("kv"):
            found = fetch(device, caches.addresses(2)[f"{kind}_{layer}"], expected[0, 0])
            assert np.array_equal(found, expected[2 * layer + i, 2])
            assert caches.addresses(1)[f"{kind}_{layer}"] == caches.addresses(1)[f"{kind}_{layer}_out"]
    caches.clear()
    assert not fetch(device, caches.address, expected).any()


def test_a_sequence_finds_its_states_again_across_the_end_of_the_ring(device):
    states = HiddenStates(device, SIZES, LIMITS)
    random, history = np.random.default_rng(0), []
    for _ in range(17):
        step = random.standard_normal((3, 64), np.float32)
        history.append(step)
        states.advance(send(device, step), 3)
    late = random.standard_normal((1, 64), np.float32)
    states.add(1, send(device, late))
    history[-1][1] = late
    target = send(device, np.zeros((8, 64), np.float32))
    wanted = np.stack([step[1] for step in history])
    for first, skip, steps in ((8, 0, 10), (9, 1, 8), (12, 3, 1), (16, 0, 2)):
        states.gather(States(1, first + skip, min(steps, 8)), target)
        begin = first + skip - 1
        found = fetch(device, target, np.zeros((min(steps, 8), 64), np.float32))
        assert np.array_equal(found, wanted[begin : begin + min(steps, 8)])
    states.move(1, 0)
    states.gather(States(0, 10, 8), target)
    assert np.array_equal(fetch(device, target, np.zeros((8, 64), np.float32)), wanted[9:17])


def test_a_step_of_one_row_leaves_the_others_alone(device):
    states = HiddenStates(device, SIZES, LIMITS)
    full, single = np.ones((3, 64), np.float32), np.full((1, 64), 2, np.float32)
    for _ in range(10):
        states.advance(send(device, full), 3)
    states.advance(send(device, single), 1)
    target = send(device, np.zeros((1, 64), np.float32))
    for row, value in ((0, 2), (1, 1)):
        states.gather(States(row, 11, 1), target)
        assert (fetch(device, target, single) == value).all()
