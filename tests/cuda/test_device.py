"""The device layer on a real GPU with `-m gpu`, and on the emulated one by `test_on_the_emulated_gpu.py`."""

import ctypes
import threading
from contextlib import closing

import numpy as np
import pytest

from trt_tts.cuda.device import Device
from trt_tts.cuda.libcuda import library
from trt_tts.errors import CudaError, DeviceMemoryError

pytestmark = pytest.mark.gpu


@pytest.fixture
def device():
    with closing(Device()) as opened, opened.activated():
        yield opened


def send(device, values):
    """An array in device memory."""
    pinned = device.allocate_pinned(values.nbytes)
    pinned.array[:] = np.frombuffer(values.tobytes(), np.uint8)
    address = device.allocate(values.nbytes)
    device.driver.copy_up(address, pinned, device.stream)
    return address


def fetch(device, address, like):
    pinned = device.allocate_pinned(like.nbytes)
    device.driver.copy_down(pinned, address, device.stream)
    device.synchronize()
    return pinned.array.view(like.dtype).reshape(like.shape).copy()


def current_context():
    context = ctypes.c_void_p()
    assert library().cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value


NUMBERS = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)


def test_the_gpu_says_what_it_is(device):
    free, total = device.memory_info()
    assert 0 < free <= total
    assert device.name
    major, minor = device.compute_capability.split(".")
    assert int(major) >= 5 and 0 <= int(minor) <= 9


def test_what_goes_up_comes_down(device):
    assert np.array_equal(fetch(device, send(device, NUMBERS), NUMBERS), NUMBERS)


def test_allocations_are_aligned_and_counted(device):
    addresses = [device.allocate(size) for size in (1, 257, 1 << 20)]
    assert all(address % 256 == 0 for address in addresses)
    assert device.allocated == 1 + 257 + (1 << 20)
    device.free(addresses[1])
    assert device.allocated == 1 + (1 << 20)
    pinned = device.allocate_pinned(100)
    assert device.pinned == 100
    device.free_pinned(pinned)
    assert device.pinned == 0


def test_a_part_of_pinned_memory_is_copied_alone(device):
    target = send(device, np.zeros(4, np.int32))
    pinned = device.allocate_pinned(16)
    pinned.array.view(np.int32)[:] = [1, 2, 3, 4]
    device.driver.copy_up(target + 4, pinned.part(8, 8), device.stream)
    assert fetch(device, target, np.zeros(4, np.int32)).tolist() == [0, 3, 4, 0]


def test_copies_on_the_device_take_any_pitch(device):
    source, target = send(device, NUMBERS), send(device, np.zeros_like(NUMBERS))
    row = 8 * 4
    device.driver.copy(target, source + row, row, device.stream)
    device.driver.copy_strided(target + row + 8, row, source + 4, 2 * row, 12, 3, device.stream)
    expected = np.zeros_like(NUMBERS)
    expected[0] = NUMBERS[1]
    expected[1:4, 2:5] = NUMBERS[::2, 1:4]
    assert np.array_equal(fetch(device, target, NUMBERS), expected)


def test_fills_set_bytes(device):
    target, row = send(device, np.zeros((6, 8), np.uint8)), 8
    device.driver.fill(target, 0xFF, row, device.stream)
    device.driver.fill_strided(target + 2 * row + 1, 2 * row, 7, 3, 2, device.stream)
    expected = np.zeros((6, 8), np.uint8)
    expected[0] = 0xFF
    expected[2::2, 1:4] = 7
    assert np.array_equal(fetch(device, target, expected), expected)


def test_an_event_waits_for_what_was_queued_before_it(device):
    source, event = send(device, NUMBERS), device.create_event()
    pinned = device.allocate_pinned(NUMBERS.nbytes)
    for _ in range(2):
        pinned.array[:] = 0
        device.driver.copy_down(pinned, source, device.stream)
        device.driver.record(event, device.stream)
        device.driver.wait(event)
        assert np.array_equal(pinned.array.view(np.float32).reshape(NUMBERS.shape), NUMBERS)


def test_a_graph_replays_what_was_captured_on_new_data(device):
    first, second = send(device, NUMBERS), send(device, np.zeros_like(NUMBERS))
    device.synchronize()
    graph = device.capture(lambda: device.driver.copy(second, first, NUMBERS.nbytes, device.stream))
    assert not fetch(device, second, NUMBERS).any(), "a capture runs nothing"
    for factor in (2, 3):
        pinned = device.allocate_pinned(NUMBERS.nbytes)
        pinned.array.view(np.float32)[:] = factor * NUMBERS.ravel()
        device.driver.copy_up(first, pinned, device.stream)
        device.driver.launch(graph, device.stream)
        assert np.array_equal(fetch(device, second, NUMBERS), factor * NUMBERS)


def test_what_cannot_be_captured_is_an_error_and_the_stream_goes_on(device):
    target = send(device, NUMBERS)
    device.synchronize()
    with pytest.raises(CudaError):
        device.capture(device.synchronize)

    def fails():
        raise KeyError("of the caller")

    with pytest.raises(KeyError):
        device.capture(fails)
    assert np.array_equal(fetch(device, target, NUMBERS), NUMBERS)


def test_too_much_memory_is_an_error_of_its_own_and_the_next_call_works(device):
    with pytest.raises(DeviceMemoryError, match="out of memory"):
        device.allocate(1 << 46)
    assert np.array_equal(fetch(device, send(device, NUMBERS), NUMBERS), NUMBERS)


def test_a_bad_address_is_an_error_of_the_driver(device):
    with pytest.raises(CudaError, match="cuMem"):
        device.driver.copy(8, 16, 4, device.stream)
    assert np.array_equal(fetch(device, send(device, NUMBERS), NUMBERS), NUMBERS)


def test_there_is_no_hundredth_gpu():
    with pytest.raises(CudaError, match="no NVIDIA GPU answers"):
        Device(100)


def test_closing_gives_the_memory_back():
    with closing(Device()) as other, other.activated():
        before = other.memory_info()[0]
        device = Device()
        with device.activated():
            device.allocate(64 << 20)
            assert other.memory_info()[0] <= before - (64 << 20)
        device.close()
        assert abs(other.memory_info()[0] - before) < 4 << 20


def test_the_context_is_current_inside_only():
    before = current_context()
    with closing(Device()) as device:
        assert current_context() == before
        with device.activated():
            inside = current_context()
            with device.activated():
                assert current_context() == inside is not None
        assert current_context() == before
    assert current_context() == before


def test_an_application_that_uses_the_gpu_keeps_its_context_and_its_memory():
    """Both are in the primary context, as with torch."""
    cuda, context, address = library(), ctypes.c_void_p(), ctypes.c_ulonglong()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxPushCurrent_v2(context) == 0
    try:
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 20)) == 0
        with closing(Device()) as device, device.activated():
            assert current_context() == context.value
            fetch(device, send(device, NUMBERS), NUMBERS)
        assert current_context() == context.value
        assert cuda.cuMemsetD8_v2(address, ctypes.c_ubyte(1), ctypes.c_size_t(1 << 20)) == 0
        assert cuda.cuMemFree_v2(address) == 0
    finally:
        cuda.cuCtxPopCurrent_v2(ctypes.byref(context))
        cuda.cuDevicePrimaryCtxRelease_v2(0)


def test_any_thread_may_use_it_in_its_turn():
    device, found = Device(), []

    def work():
        with device.activated():
            found.append(fetch(device, send(device, NUMBERS), NUMBERS))

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    device.close()
    assert len(found) == 3 and all(np.array_equal(values, NUMBERS) for values in found)
