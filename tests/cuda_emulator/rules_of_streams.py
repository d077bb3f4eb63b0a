"""What the emulator holds a program to about streams and contexts; each function runs in a process of its own."""

from __future__ import annotations

import ctypes
import threading

from tests.cuda_emulator.control import Emulator
from tests.cuda_emulator.driver import Driver, content

INVALID_CONTEXT, INVALID_HANDLE, NOT_READY = 201, 400, 600


def copies_wait_for_a_synchronisation(cuda: Driver, emulator: Emulator) -> None:
    stream, device, source, target = cuda.stream(), cuda.device(4), cuda.pinned(b"new!"), cuda.pinned(b"old!")
    assert cuda.up(device, source, 4, stream) == 0
    assert cuda.down(target, device, 4, stream) == 0
    assert content(target, 4) == b"old!"
    assert cuda.call("cuStreamQuery", stream) == NOT_READY
    assert content(target, 4) == b"old!", "a query does not execute"
    assert cuda.synchronize(stream) == 0
    assert content(target, 4) == b"new!"
    assert cuda.call("cuStreamQuery", stream) == 0


def staging_is_read_when_executed(cuda: Driver, emulator: Emulator) -> None:
    stream, device, staging = cuda.stream(), cuda.device(4), cuda.pinned(b"one!")
    cuda.up(device, staging, 4, stream)
    ctypes.memmove(staging, b"two!", 4)
    cuda.synchronize(stream)
    assert content(device, 4) == b"two!"


def synchronous_copies_drain(cuda: Driver, emulator: Emulator) -> None:
    stream, device, back = cuda.stream(), cuda.device(4), ctypes.create_string_buffer(4)
    cuda.up(device, cuda.pinned(b"new!"), 4, stream)
    cuda.ok("cuMemcpyDtoH_v2", back, device, 4)
    assert back.raw == b"new!"


def events_execute_their_stream_up_to_them(cuda: Driver, emulator: Emulator) -> None:
    stream, event, first, second = cuda.stream(), cuda.make("cuEventCreate", 0), cuda.device(4), cuda.device(4)
    cuda.up(first, cuda.pinned(b"1111"), 4, stream)
    cuda.ok("cuEventRecord", event, stream)
    cuda.up(second, cuda.pinned(b"2222"), 4, stream)
    assert cuda.call("cuEventQuery", event) == NOT_READY
    cuda.ok("cuEventSynchronize", event)
    assert content(first, 4) == b"1111"
    assert content(second, 4) == b"\xff" * 4
    assert cuda.call("cuEventQuery", event) == 0


def waiting_streams_force_the_awaited_record(cuda: Driver, emulator: Emulator) -> None:
    producer, consumer, event = cuda.stream(), cuda.stream(), cuda.make("cuEventCreate", 2)
    device, target = cuda.device(4), cuda.pinned(b"old!")
    cuda.up(device, cuda.pinned(b"new!"), 4, producer)
    cuda.ok("cuEventRecord", event, producer)
    cuda.ok("cuStreamWaitEvent", consumer, event, 0)
    cuda.down(target, device, 4, consumer)
    cuda.synchronize(consumer)
    assert content(target, 4) == b"new!"


def streams_do_not_wait_unasked(cuda: Driver, emulator: Emulator) -> None:
    producer, consumer, device, target = cuda.stream(), cuda.stream(), cuda.device(4), cuda.pinned(b"old!")
    cuda.up(device, cuda.pinned(b"new!"), 4, producer)
    cuda.down(target, device, 4, consumer)
    cuda.synchronize(consumer)
    assert content(target, 4) == b"\xff" * 4


def elapsed_time_needs_executed_records(cuda: Driver, emulator: Emulator) -> None:
    stream, start, end = cuda.stream(), cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0)
    elapsed = ctypes.c_float(-1)
    cuda.ok("cuEventRecord", start, stream)
    cuda.ok("cuEventRecord", end, stream)
    assert cuda.call("cuEventElapsedTime", ctypes.byref(elapsed), start, end) == NOT_READY
    cuda.synchronize(stream)
    cuda.ok("cuEventElapsedTime", ctypes.byref(elapsed), start, end)
    assert elapsed.value >= 0
    untimed = cuda.make("cuEventCreate", 2)
    cuda.ok("cuEventRecord", untimed, stream)
    cuda.synchronize(stream)
    assert cuda.call("cuEventElapsedTime", ctypes.byref(elapsed), start, untimed) == INVALID_HANDLE


def default_streams_are_refused(cuda: Driver, emulator: Emulator) -> None:
    device, pinned = cuda.device(4), cuda.pinned(b"host")
    for stream in (0, 1, 2):
        assert cuda.up(device, pinned, 4, stream) == INVALID_HANDLE
        assert "default stream" in emulator.last_fault()
        assert cuda.call("cuEventRecord", cuda.make("cuEventCreate", 0), stream) == INVALID_HANDLE


def destroyed_handles_are_found_out(cuda: Driver, emulator: Emulator) -> None:
    stream, event = cuda.stream(), cuda.make("cuEventCreate", 0)
    cuda.ok("cuEventDestroy_v2", event)
    assert cuda.call("cuEventRecord", event, stream) == INVALID_HANDLE
    assert cuda.call("cuEventDestroy_v2", event) == INVALID_HANDLE
    cuda.ok("cuStreamDestroy_v2", stream)
    assert cuda.synchronize(stream) == INVALID_HANDLE
    assert "destroyed stream" in emulator.last_fault()
    assert cuda.call("cuStreamDestroy_v2", stream) == INVALID_HANDLE
    assert cuda.call("cuGraphLaunch", 0x1234567, stream) == INVALID_HANDLE
    assert cuda.synchronize(cuda.make("cuEventCreate", 0)) == INVALID_HANDLE, "an event is no stream"


def destroying_a_stream_executes_it(cuda: Driver, emulator: Emulator) -> None:
    stream, device = cuda.stream(), cuda.device(4)
    cuda.up(device, cuda.pinned(b"new!"), 4, stream)
    cuda.ok("cuStreamDestroy_v2", stream)
    assert content(device, 4) == b"new!"


def each_thread_needs_a_context(cuda: Driver, emulator: Emulator) -> None:
    codes: list[int] = []
    address = ctypes.c_ulonglong()
    thread = threading.Thread(target=lambda: codes.append(cuda.call("cuMemAlloc_v2", ctypes.byref(address), 4)))
    thread.start()
    thread.join()
    assert codes == [INVALID_CONTEXT]
    context = cuda.make("cuCtxPopCurrent_v2")
    assert cuda.call("cuMemAlloc_v2", ctypes.byref(address), 4) == INVALID_CONTEXT
    assert cuda.call("cuCtxPopCurrent_v2", None) == INVALID_CONTEXT
    assert cuda.call("cuCtxDestroy_v2", context) == INVALID_CONTEXT
    cuda.ok("cuCtxSetCurrent", context)
    cuda.ok("cuMemAlloc_v2", ctypes.byref(address), 4)
