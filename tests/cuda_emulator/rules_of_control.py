"""What the emulator counts and what a test can inject; each function runs in a process of its own."""

from __future__ import annotations

import ctypes
import threading
import time

from tests.cuda_emulator.control import Emulator, Kernel
from tests.cuda_emulator.driver import Driver, content

INVALID_VALUE, OUT_OF_MEMORY, NOT_READY, LAUNCH_FAILED, NOT_PERMITTED, NOT_SUPPORTED = 1, 2, 600, 719, 800, 801
KIB = 1024


def _memory(cuda: Driver) -> tuple[int, int]:
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    cuda.ok("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def memory_is_limited(cuda: Driver, emulator: Emulator) -> None:
    """Runs with 1 MiB of memory, 256 KiB of it taken by others."""
    assert _memory(cuda) == (768 * KIB, 1024 * KIB)
    address = ctypes.c_ulonglong()
    assert cuda.call("cuMemAlloc_v2", ctypes.byref(address), 768 * KIB + 1) == OUT_OF_MEMORY
    small = cuda.device(1)
    assert _memory(cuda)[0] == 768 * KIB - 512
    assert cuda.call("cuMemAlloc_v2", ctypes.byref(address), 768 * KIB) == OUT_OF_MEMORY
    assert cuda.call("cuMemAlloc_v2", ctypes.byref(address), 2**64 - 1) == OUT_OF_MEMORY
    cuda.ok("cuMemFree_v2", small)
    cuda.device(768 * KIB)
    assert _memory(cuda)[0] == 0
    cuda.pinned(bytes(2048 * KIB))


def everything_is_counted(cuda: Driver, emulator: Emulator) -> None:
    before = emulator.stat("calls")
    stream, device, other, pinned = cuda.stream(), cuda.device(100), cuda.device(100), cuda.pinned(bytes(50))
    cuda.up(device, pinned, 50, stream)
    cuda.call("cuMemcpyDtoDAsync_v2", other, device, 30, stream)
    cuda.down(pinned, other, 20, stream)
    assert emulator.stat("bytes_up") == 0
    cuda.synchronize(stream)
    assert [emulator.stat(f"bytes_{way}") for way in ("up", "device", "down")] == [50, 30, 20]
    assert [emulator.stat(f"device_{what}") for what in ("live", "live_count", "allocations")] == [200, 2, 2]
    assert [emulator.stat(f"pinned_{what}") for what in ("live", "live_count", "allocations")] == [50, 1, 1]
    cuda.ok("cuMemFree_v2", device)
    assert [emulator.stat(f"device_{what}") for what in ("live", "live_count", "allocations")] == [100, 1, 2]
    assert emulator.stat("calls") - before == 9
    assert (emulator.calls("cuMemAlloc"), emulator.calls("cuMemFree"), emulator.calls("cuMemFreeHost")) == (2, 1, 0)
    assert emulator.stat("faults") == 0


def calls_are_logged_in_order(cuda: Driver, emulator: Emulator) -> None:
    stream = cuda.stream()
    emulator.start_log()
    cuda.device(4)
    emulator.start_log()
    device = cuda.device(4)
    cuda.synchronize(stream)
    cuda.ok("cuMemFree_v2", device)
    assert emulator.log() == ["cuMemAlloc", "cuStreamSynchronize", "cuMemFree"]


def the_nth_call_fails_and_does_nothing(cuda: Driver, emulator: Emulator) -> None:
    device = cuda.device(4)
    emulator.fail(2, 999)
    cuda.ok("cuCtxSynchronize")
    assert not emulator.failed()
    assert cuda.call("cuMemFree_v2", device) == 999
    assert emulator.failed()
    assert emulator.in_device(device, 4)
    cuda.ok("cuMemFree_v2", device)


def a_sticky_failure_lasts(cuda: Driver, emulator: Emulator) -> None:
    emulator.fail(1, 999, sticky=True)
    assert [cuda.call("cuCtxSynchronize") for _ in range(3)] == [999] * 3
    emulator.stop_failing()
    cuda.ok("cuCtxSynchronize")


def a_raising_kernel_loses_the_device(cuda: Driver, emulator: Emulator) -> None:
    stream, device = cuda.stream(), cuda.device(4)
    kernel = emulator.enqueue(stream, lambda _: emulator.raise_in_kernel(LAUNCH_FAILED))
    cuda.up(device, cuda.pinned(b"new!"), 4, stream)
    assert cuda.synchronize(stream) == LAUNCH_FAILED
    assert content(device, 4) == b"\xff" * 4, "nothing is executed after the loss"
    assert cuda.call("cuCtxSynchronize") == LAUNCH_FAILED
    assert cuda.call("cuMemFree_v2", device) == LAUNCH_FAILED
    del kernel


def host_functions_may_not_call_cuda(cuda: Driver, emulator: Emulator) -> None:
    codes: list[int] = []
    stream, device = cuda.stream(), cuda.device(4)
    function = Kernel(lambda _: codes.append(cuda.call("cuCtxSynchronize")))
    cuda.ok("cuLaunchHostFunc", stream, function, None)
    kernel = emulator.enqueue(stream, lambda _: codes.append(cuda.synchronize(stream)))
    collected = emulator.enqueue(stream, lambda _: codes.append(cuda.call("cuMemFree_v2", device)))
    cuda.ok("cuStreamSynchronize", stream)
    assert codes == [NOT_PERMITTED, NOT_PERMITTED, 0]
    del kernel, collected


def another_thread_waits_for_a_stream_being_executed(cuda: Driver, emulator: Emulator) -> None:
    """And the lock is free meanwhile: the queued function, the main thread and the waiting thread all get on."""
    stream, device, started, finish = cuda.stream(), cuda.device(4), threading.Event(), threading.Event()
    context, codes = cuda.make("cuCtxGetCurrent"), []

    def kernel(_: int | None) -> None:
        started.set()
        finish.wait(5)
        ctypes.memset(device, 7, 4)

    def synchronize() -> None:
        cuda.ok("cuCtxSetCurrent", context)
        codes.append((cuda.synchronize(stream), content(device, 4)))

    kept = emulator.enqueue(stream, kernel)
    threads = [threading.Thread(target=synchronize) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait(5)
    time.sleep(0.05)
    assert cuda.call("cuStreamQuery", stream) == NOT_READY
    assert codes == []
    finish.set()
    for thread in threads:
        thread.join(5)
    assert codes == [(0, b"\x07" * 4)] * 2
    assert emulator.stat("host_functions") == 1
    del kept


def functions_are_found_by_their_base_names(cuda: Driver, emulator: Emulator) -> None:
    status = ctypes.c_int(-1)

    def find(name: str) -> int | None:
        found = ctypes.c_void_p()
        cuda.call("cuGetProcAddress_v2", name.encode(), ctypes.byref(found), 13000, 0, ctypes.byref(status))
        return found.value

    newest = ctypes.cast(cuda._driver.cuMemAlloc_v2, ctypes.c_void_p).value
    assert (find("cuMemAlloc"), status.value) == (newest, 0)
    assert (find("cuNoSuchFunction"), status.value) == (None, 1)
    assert (find("emu_stat"), status.value) == (None, 1)


def errors_have_their_real_names(cuda: Driver, emulator: Emulator) -> None:
    text = ctypes.c_char_p()
    cuda.ok("cuGetErrorName", OUT_OF_MEMORY, ctypes.byref(text))
    assert text.value == b"CUDA_ERROR_OUT_OF_MEMORY"
    cuda.ok("cuGetErrorString", OUT_OF_MEMORY, ctypes.byref(text))
    assert text.value == b"out of memory"
    assert cuda.call("cuGetErrorName", 12345, ctypes.byref(text)) == INVALID_VALUE
    assert cuda.call("cuLaunchKernel") == NOT_SUPPORTED
