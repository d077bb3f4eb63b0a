"""What the emulator holds a program to about capture and replay; each function runs in a process of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from tests.cuda_emulator.control import Emulator
from tests.cuda_emulator.driver import Driver, content

INVALID_HANDLE, ILLEGAL_STATE, NOT_READY, ILLEGAL_ADDRESS = 400, 401, 600, 700
UNSUPPORTED, INVALIDATED, ISOLATION, CAPTURED_EVENT = 900, 901, 905, 907
GLOBAL, THREAD_LOCAL, RELAXED = 0, 1, 2


def _begin(cuda: Driver, mode: int = RELAXED) -> int:
    stream = cuda.stream()
    cuda.ok("cuStreamBeginCapture_v2", stream, mode)
    return stream


def _end(cuda: Driver, stream: int) -> tuple[int, int]:
    graph = ctypes.c_ulonglong(1)
    code = cuda.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    return code, graph.value


def _executable(cuda: Driver, stream: int) -> int:
    code, graph = _end(cuda, stream)
    assert code == 0
    executable = cuda.make("cuGraphInstantiateWithFlags", graph, 0)
    cuda.ok("cuGraphDestroy", graph)
    return executable


def captured_work_runs_only_when_launched(cuda: Driver, emulator: Emulator) -> None:
    device, staging = cuda.device(4), cuda.pinned(b"one!")
    stream = _begin(cuda)
    cuda.up(device, staging, 4, stream)
    executable = _executable(cuda, stream)
    cuda.synchronize(stream)
    assert content(device, 4) == b"\xff" * 4
    for text in (b"two!", b"3333"):
        ctypes.memmove(staging, text, 4)
        cuda.ok("cuGraphLaunch", executable, stream)
        assert content(device, 4) != text
        assert cuda.call("cuStreamQuery", stream) == NOT_READY
        cuda.synchronize(stream)
        assert content(device, 4) == text
    assert emulator.stat("graph_launches") == 2
    assert emulator.stat("graphs_live") == 1


def a_destroyed_graph_is_not_launched(cuda: Driver, emulator: Emulator) -> None:
    stream = _begin(cuda)
    executable = _executable(cuda, stream)
    cuda.ok("cuGraphExecDestroy", executable)
    assert cuda.call("cuGraphLaunch", executable, stream) == INVALID_HANDLE
    assert cuda.call("cuGraphExecDestroy", executable) == INVALID_HANDLE
    assert emulator.stat("graphs_live") == 0


def a_replay_on_freed_memory_loses_the_device(cuda: Driver, emulator: Emulator) -> None:
    device, staging = cuda.device(4), cuda.pinned(b"one!")
    stream = _begin(cuda)
    cuda.up(device, staging, 4, stream)
    executable = _executable(cuda, stream)
    cuda.ok("cuMemFree_v2", device)
    cuda.device(4)
    cuda.ok("cuGraphLaunch", executable, stream)
    assert cuda.synchronize(stream) == ILLEGAL_ADDRESS
    assert "cuMemcpyHtoDAsync" in emulator.last_fault()
    assert cuda.call("cuCtxSynchronize") == ILLEGAL_ADDRESS
    assert cuda.call("cuMemFreeHost", staging) == ILLEGAL_ADDRESS
    assert cuda.call("cuMemAlloc_v2", ctypes.byref(ctypes.c_ulonglong()), 4) == ILLEGAL_ADDRESS


def _spoils(cuda: Driver, mode: int, call: Callable[[int], int]) -> bool:
    """Whether a call made during a capture is refused and spoils it; anything between the two is an error."""
    stream = _begin(cuda, mode)
    refused = call(stream) == UNSUPPORTED
    code, graph = _end(cuda, stream)
    assert (code, bool(graph)) == ((INVALIDATED, False) if refused else (0, True))
    return refused


def calls_that_synchronise_spoil_any_capture(cuda: Driver, emulator: Emulator) -> None:
    device, pinned, buffer = cuda.device(4), cuda.pinned(b"host"), ctypes.create_string_buffer(4)
    for mode in (GLOBAL, THREAD_LOCAL, RELAXED):
        assert _spoils(cuda, mode, cuda.synchronize)
        assert _spoils(cuda, mode, lambda stream: cuda.call("cuStreamQuery", stream))
        assert _spoils(cuda, mode, lambda _: cuda.call("cuCtxSynchronize"))
        assert _spoils(cuda, mode, lambda _: cuda.call("cuMemFree_v2", device))
        assert _spoils(cuda, mode, lambda _: cuda.call("cuMemFreeHost", pinned))
        assert _spoils(cuda, mode, lambda _: cuda.call("cuMemcpyDtoH_v2", buffer, device, 4))
        assert _spoils(cuda, mode, lambda _: cuda.call("cuMemsetD8_v2", device, 0, 4))
    assert emulator.in_device(device, 4), "a refused cuMemFree frees nothing"


def some_calls_spoil_all_but_a_relaxed_capture(cuda: Driver, emulator: Emulator) -> None:
    address, event = ctypes.c_ulonglong(), cuda.make("cuEventCreate", 0)

    def allocate(_: int) -> int:
        return cuda.call("cuMemAlloc_v2", ctypes.byref(address), 4)

    def allocate_pinned(_: int) -> int:
        return cuda.call("cuMemHostAlloc", ctypes.byref(address), 4, 0)

    def query(_: int) -> int:
        return cuda.call("cuEventQuery", event)

    for call in (allocate, allocate_pinned, query):
        assert _spoils(cuda, GLOBAL, call)
        assert _spoils(cuda, THREAD_LOCAL, call)
        assert not _spoils(cuda, RELAXED, call)


def work_that_cannot_be_captured_spoils_the_capture(cuda: Driver, emulator: Emulator) -> None:
    stream = _begin(cuda)
    assert emulator.is_capturing(stream)
    emulator.invalidate(stream, "this kernel cannot be captured")
    assert "this kernel cannot be captured" in emulator.last_fault()
    assert cuda.call("cuMemsetD8Async", cuda.device(4), 0, 4, stream) == INVALIDATED
    assert _end(cuda, stream) == (INVALIDATED, 0)
    assert not emulator.is_capturing(stream)
    assert cuda.call("cuMemsetD8Async", cuda.device(4), 0, 4, stream) == 0


def captures_are_begun_and_ended_once(cuda: Driver, emulator: Emulator) -> None:
    stream = _begin(cuda)
    assert cuda.call("cuStreamBeginCapture_v2", stream, RELAXED) == ILLEGAL_STATE
    state = ctypes.c_int()
    cuda.ok("cuStreamIsCapturing", stream, ctypes.byref(state))
    assert state.value == 1
    assert _end(cuda, stream)[0] == 0
    assert _end(cuda, stream)[0] == ILLEGAL_STATE


def a_capture_starts_empty(cuda: Driver, emulator: Emulator) -> None:
    device = cuda.device(4)
    stream = _begin(cuda)
    cuda.ok("cuMemsetD8Async", device, 1, 4, stream)
    cuda.ok("cuGraphDestroy", _end(cuda, stream)[1])
    cuda.ok("cuStreamBeginCapture_v2", stream, RELAXED)
    cuda.ok("cuGraphLaunch", _executable(cuda, stream), stream)
    cuda.synchronize(stream)
    assert content(device, 4) == b"\xff" * 4


def events_of_a_capture_are_no_moment(cuda: Driver, emulator: Emulator) -> None:
    event, outside, other = cuda.make("cuEventCreate", 0), cuda.make("cuEventCreate", 0), cuda.stream()
    stream = _begin(cuda)
    cuda.ok("cuEventRecord", event, stream)
    cuda.ok("cuStreamWaitEvent", stream, event, 0)
    assert cuda.call("cuEventSynchronize", event) == CAPTURED_EVENT
    assert _end(cuda, stream)[0] == INVALIDATED
    cuda.ok("cuEventRecord", outside, other)
    stream = _begin(cuda)
    assert cuda.call("cuStreamWaitEvent", stream, outside, 0) == ISOLATION
    assert _end(cuda, stream)[0] == INVALIDATED


def host_functions_are_captured_and_replayed(cuda: Driver, emulator: Emulator) -> None:
    seen: list[int] = []
    stream = _begin(cuda)
    kernel = emulator.enqueue(stream, lambda _: seen.append(1))
    executable = _executable(cuda, stream)
    for _ in range(3):
        cuda.ok("cuGraphLaunch", executable, stream)
    assert seen == []
    cuda.synchronize(stream)
    assert seen == [1, 1, 1]
    assert emulator.stat("host_functions") == 3
    del kernel
