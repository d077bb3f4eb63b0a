"""What the emulator holds a program to about memory; each function runs in a process of its own."""

from __future__ import annotations

import ctypes
import struct

from tests.cuda_emulator.control import Emulator
from tests.cuda_emulator.driver import Driver, content

INVALID_VALUE, INVALID_CONTEXT, ILLEGAL_ADDRESS, CONTEXT_DESTROYED = 1, 201, 700, 709


def fresh_memory_is_nan(cuda: Driver, emulator: Emulator) -> None:
    pinned = cuda.make("cuMemHostAlloc", 8, 0)
    for address in (cuda.device(8), pinned):
        value = struct.unpack("f", content(address, 4))[0]
        assert value != value
        assert content(address, 8) == b"\xff" * 8


def addresses_are_aligned_and_never_used_twice(cuda: Driver, emulator: Emulator) -> None:
    seen = set()
    for size in (1, 300, 4096, 5000):
        address = cuda.device(size)
        assert address % 256 == 0
        assert address not in seen
        seen.add(address)
        cuda.ok("cuMemFree_v2", address)


def ranges_are_checked_when_queued(cuda: Driver, emulator: Emulator) -> None:
    stream, device, pinned = cuda.stream(), cuda.device(100), cuda.pinned(bytes(200))
    assert cuda.up(device, pinned, 101, stream) == INVALID_VALUE
    assert "cuMemcpyHtoDAsync" in emulator.last_fault()
    assert "101 bytes" in emulator.last_fault()
    assert cuda.down(pinned + 150, device, 60, stream) == INVALID_VALUE
    assert cuda.call("cuMemsetD8Async", device + 1, 0, 100, stream) == INVALID_VALUE
    assert cuda.call("cuMemsetD32Async", device, 0, 26, stream) == INVALID_VALUE
    assert cuda.call("cuMemsetD2D8Async", device, 30, 0, 11, 4, stream) == INVALID_VALUE
    assert cuda.call("cuMemcpyDtoDAsync_v2", device + 50, device, 51, stream) == INVALID_VALUE
    assert cuda.call("cuMemcpyHtoD_v2", device, ctypes.create_string_buffer(200), 101) == INVALID_VALUE
    assert cuda.call("cuMemsetD32Async", device, 0, 2**62, stream) == INVALID_VALUE
    assert cuda.call("cuMemsetD2D8Async", device, 2**63, 0, 4, 3, stream) == INVALID_VALUE
    assert emulator.stat("faults") == 9
    assert cuda.call("cuMemsetD2D8Async", device, 30, 7, 10, 4, stream) == 0
    assert cuda.synchronize(stream) == 0
    assert content(device, 31) == b"\x07" * 10 + b"\xff" * 20 + b"\x07"


def device_and_host_are_not_mixed_up(cuda: Driver, emulator: Emulator) -> None:
    stream, device, pinned = cuda.stream(), cuda.device(4), cuda.pinned(b"host")
    assert cuda.up(pinned, pinned, 4, stream) == INVALID_VALUE
    assert cuda.down(device, device, 4, stream) == INVALID_VALUE
    assert emulator.in_device(device, 4)
    assert not emulator.in_device(device, 5)
    assert not emulator.in_device(pinned, 4)


def overlapping_copies_are_refused(cuda: Driver, emulator: Emulator) -> None:
    stream, device = cuda.stream(), cuda.device(100)
    assert cuda.call("cuMemcpyDtoDAsync_v2", device + 10, device, 20, stream) == INVALID_VALUE
    assert cuda.call("cuMemcpyDtoDAsync_v2", device + 20, device, 20, stream) == 0


def a_write_beyond_the_end_is_found_on_free(cuda: Driver, emulator: Emulator) -> None:
    device = cuda.device(100)
    ctypes.memset(device + 100, 0, 1)
    assert cuda.call("cuMemFree_v2", device) == ILLEGAL_ADDRESS
    assert "outside its bounds" in emulator.last_fault()


def freeing_executes_what_was_queued(cuda: Driver, emulator: Emulator) -> None:
    stream, device, target = cuda.stream(), cuda.device(4), cuda.pinned(b"old!")
    cuda.down(target, device, 4, stream)
    cuda.ok("cuMemFree_v2", device)
    assert content(target, 4) == b"\xff" * 4
    assert cuda.down(target, device, 4, stream) == INVALID_VALUE


def memory_is_freed_once_and_by_its_own_function(cuda: Driver, emulator: Emulator) -> None:
    device, pinned = cuda.device(4), cuda.pinned(b"host")
    assert cuda.call("cuMemFree_v2", pinned) == INVALID_VALUE
    assert cuda.call("cuMemFreeHost", device) == INVALID_VALUE
    assert cuda.call("cuMemFree_v2", device + 1) == INVALID_VALUE
    cuda.ok("cuMemFree_v2", device)
    cuda.ok("cuMemFreeHost", pinned)
    assert cuda.call("cuMemFree_v2", device) == INVALID_VALUE
    assert cuda.call("cuMemFreeHost", pinned) == INVALID_VALUE


def asynchronous_copies_need_pinned_memory(cuda: Driver, emulator: Emulator) -> None:
    stream, device, pageable = cuda.stream(), cuda.device(4), ctypes.create_string_buffer(4)
    address = ctypes.addressof(pageable)
    assert cuda.up(device, address, 4, stream) == INVALID_VALUE
    assert cuda.down(address, device, 4, stream) == INVALID_VALUE
    assert cuda.call("cuMemcpyAsync", device, address, 4, stream) == INVALID_VALUE
    assert emulator.stat("unpinned_copies") == 3
    cuda.ok("cuMemcpyHtoD_v2", device, pageable, 4)
    assert emulator.stat("unpinned_copies") == 3


def rectangles_are_copied_by_their_pitches(cuda: Driver, emulator: Emulator) -> None:
    stream, device, pinned = cuda.stream(), cuda.device(32), cuda.pinned(b"abcdefgh")

    def rectangle(height: int) -> bytes:
        source = struct.pack("QQIxxxxQQQQ", 1, 0, 1, pinned, 0, 0, 4)
        target = struct.pack("QQIxxxxQQQQ", 2, 1, 2, 0, device, 0, 8)
        return source + target + struct.pack("QQ", 3, height)

    assert cuda.call("cuMemcpy2DAsync_v2", rectangle(3), stream) == INVALID_VALUE
    cuda.ok("cuMemcpy2DAsync_v2", rectangle(2), stream)
    cuda.synchronize(stream)
    assert content(device + 8, 16) == b"\xff\xffbcd\xff\xff\xff\xff\xfffgh\xff\xff\xff"


def the_last_release_counts_what_was_left(cuda: Driver, emulator: Emulator) -> None:
    cuda.device(4), cuda.pinned(b"host"), cuda.stream(), cuda.make("cuEventCreate", 0)
    cuda.make("cuDevicePrimaryCtxRetain", 0)
    cuda.ok("cuDevicePrimaryCtxRelease_v2", 0)
    assert (emulator.stat("leaked"), emulator.stat("contexts_retained")) == (0, 1)
    cuda.ok("cuDevicePrimaryCtxRelease_v2", 0)
    assert emulator.stat("leaked") == 4
    live = ("device_live", "pinned_live", "streams_live", "events_live", "contexts_retained")
    assert [emulator.stat(name) for name in live] == [0] * 5
    assert cuda.call("cuCtxSynchronize") == CONTEXT_DESTROYED
    assert cuda.call("cuDevicePrimaryCtxRelease_v2", 0) == INVALID_CONTEXT
