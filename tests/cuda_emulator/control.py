"""Read and steer the emulated CUDA driver from inside the process that uses it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

Kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Emulator:
    """The emu_* functions of the libcuda.so.1 that this process loads; an AttributeError if that is no emulator."""

    def __init__(self) -> None:
        library = ctypes.CDLL("libcuda.so.1")
        for name, result, *arguments in _SIGNATURES:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        self._driver = library

    def stat(self, name: str) -> int:
        """One counter by the name that README.md lists."""
        value = int(self._driver.emu_stat(name.encode()))
        if value == _UNKNOWN:
            raise KeyError(name)
        return value

    def calls(self, function: str) -> int:
        """How often one driver function was called; name it without its version suffix."""
        return int(self._driver.emu_calls(function.encode()))

    def start_log(self) -> None:
        """Forget the names of the calls so far and note those that follow."""
        self._driver.emu_log_start()

    def log(self) -> list[str]:
        """The names of the calls since start_log, in order."""
        return self._text(self._driver.emu_log).split()

    def fail(self, nth: int, code: int, *, sticky: bool = False) -> None:
        """Let the nth call from now return a code and do nothing; if sticky, every call after it too."""
        self._driver.emu_fail(nth, code, sticky)

    def stop_failing(self) -> None:
        """Take an injected failure back."""
        self._driver.emu_fail(0, 0, 0)

    def failed(self) -> bool:
        """Whether the injected failure was hit."""
        return bool(self._driver.emu_failed())

    def in_device(self, address: int, size: int) -> bool:
        """Whether a range lies inside one live device allocation."""
        return bool(self._driver.emu_in_device(address, size))

    def enqueue(self, stream: int, function: Callable[[int | None], None]) -> object:
        """Queue a Python function as if it were a kernel; keep what this returns alive for as long as it may run."""
        kernel = Kernel(function)
        code = self._driver.emu_enqueue(stream, kernel, None)
        if code:
            raise RuntimeError(f"emu_enqueue: error {code}: {self.last_fault()}")
        return kernel

    def raise_in_kernel(self, code: int) -> None:
        """Lose the device, from inside a queued function."""
        self._driver.emu_raise(code)

    def is_capturing(self, stream: int) -> bool:
        """Whether a capture was begun on the stream and not ended."""
        return bool(self._driver.emu_is_capturing(stream))

    def invalidate(self, stream: int, why: str) -> None:
        """Spoil the capture of a stream as work that cannot be captured does."""
        self._driver.emu_invalidate(stream, why.encode())

    def last_fault(self) -> str:
        """The sentence about the last thing that CUDA would have refused or that would have broken there."""
        return self._text(self._driver.emu_last_fault)

    def _text(self, function: Callable[[ctypes.Array[ctypes.c_char] | None, int], int]) -> str:
        buffer = ctypes.create_string_buffer(function(None, 0))
        function(buffer, len(buffer))
        return buffer.value.decode()


_UNKNOWN = 2**64 - 1
_SIGNATURES = [
    ("emu_stat", ctypes.c_ulonglong, ctypes.c_char_p),
    ("emu_calls", ctypes.c_ulonglong, ctypes.c_char_p),
    ("emu_log_start", ctypes.c_int),
    ("emu_log", ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t),
    ("emu_fail", None, ctypes.c_ulonglong, ctypes.c_int, ctypes.c_int),
    ("emu_failed", ctypes.c_int),
    ("emu_in_device", ctypes.c_int, ctypes.c_ulonglong, ctypes.c_ulonglong),
    ("emu_enqueue", ctypes.c_int, ctypes.c_void_p, Kernel, ctypes.c_void_p),
    ("emu_raise", None, ctypes.c_int),
    ("emu_is_capturing", ctypes.c_int, ctypes.c_void_p),
    ("emu_invalidate", None, ctypes.c_void_p, ctypes.c_char_p),
    ("emu_last_fault", ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t),
]
