"""Failures that only the emulated GPU can be made to have; run by `test_on_the_emulated_gpu.py`."""

from contextlib import closing

import pytest

from trt_tts.cuda.device import Device
from trt_tts.errors import CudaError, DeviceLostError, DeviceMemoryError

pytestmark = pytest.mark.gpu
LIVE = ("device_live_count", "pinned_live_count", "streams_live", "events_live", "graphs_live", "contexts_retained")


def live(emulator):
    return {name: emulator.stat(name) for name in LIVE}


def use():
    """Every kind of call once."""
    with closing(Device()) as device, device.activated():
        first, second, pinned = device.allocate(512), device.allocate(512), device.allocate_pinned(512)
        driver, stream, event = device.driver, device.stream, device.create_event()
        device.memory_info()
        driver.copy_up(first, pinned, stream)
        driver.fill_strided(second, 64, 1, 8, 4, stream)
        graph = device.capture(lambda: driver.fill(first, 0, 256, stream))
        driver.launch(graph, stream)
        driver.copy_strided(first, 64, second, 64, 8, 4, stream)
        driver.copy(second, first, 512, stream)
        driver.copy_down(pinned, second, stream)
        driver.record(event, stream)
        driver.wait(event)
        device.free(second)
        device.synchronize()


def count(emulator):
    before = emulator.stat("calls")
    use()
    return emulator.stat("calls") - before


def test_a_failure_of_any_call_is_typed_and_leaves_nothing_behind(emulator):
    """Failures while closing are swallowed, and a call that gives back and fails has given nothing back."""
    calls = count(emulator)
    typed = 0
    for nth in range(1, calls + 1):
        emulator.start_log()
        emulator.fail(nth, 1)
        try:
            use()
        except CudaError as error:
            typed += error.code == 1
        emulator.stop_failing()
        failed = emulator.log()[nth - 1]
        if not failed.startswith(
            ("cuMemFree", "cuStreamDestroy", "cuEventDestroy", "cuGraph", "cuDevicePrimaryCtxRelease", "cuCtx")
        ):
            assert live(emulator) == dict.fromkeys(LIVE, 0), failed
        use()
    assert typed > calls / 2
    assert emulator.stat("unpinned_copies") == 0


def test_a_lost_device_is_lost_for_every_call_and_closing_does_not_hang(emulator):
    with closing(Device()) as device, device.activated():
        emulator.fail(1, 719, sticky=True)
        for call in (device.synchronize, device.memory_info, lambda: device.allocate(1)):
            with pytest.raises(DeviceLostError, match="stopped answering"):
                call()
        emulator.stop_failing()


def test_memory_ends_where_the_card_ends(emulator):
    with closing(Device()) as device, device.activated():
        free, total = device.memory_info()
        assert total == 4_294_705_152
        device.allocate(free - 512)
        with pytest.raises(DeviceMemoryError):
            device.allocate(1024)
