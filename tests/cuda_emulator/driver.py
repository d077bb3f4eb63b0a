"""The CUDA driver through ctypes, for scripts that ask the emulator one question."""

from __future__ import annotations

import ctypes
from typing import Any


class Driver:
    """Calls by name: `call` gives the error code, `ok` insists on success, `make` returns what the call makes."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> int:
        # A plain int would be passed as a C int and lose the upper half of an address.
        wide = [ctypes.c_ulonglong(each) if isinstance(each, int) else each for each in arguments]
        return int(getattr(self._driver, name)(*wide))

    def ok(self, name: str, *arguments: Any) -> None:
        code = self.call(name, *arguments)
        assert code == 0, f"{name}: error {code}"

    def make(self, name: str, *arguments: Any) -> int:
        made = ctypes.c_ulonglong()
        self.ok(name, ctypes.byref(made), *arguments)
        return made.value

    def start(self) -> None:
        """Initialise, and make the primary context current."""
        self.ok("cuInit", 0)
        self.ok("cuCtxPushCurrent_v2", self.make("cuDevicePrimaryCtxRetain", 0))

    def stream(self) -> int:
        return self.make("cuStreamCreate", 1)

    def device(self, size: int) -> int:
        return self.make("cuMemAlloc_v2", size)

    def pinned(self, content: bytes) -> int:
        """Pinned memory with this in it."""
        address = self.make("cuMemHostAlloc", len(content), 0)
        ctypes.memmove(address, content, len(content))
        return address

    def up(self, to: int, source: int, size: int, stream: int) -> int:
        return self.call("cuMemcpyHtoDAsync_v2", to, source, size, stream)

    def down(self, to: int, source: int, size: int, stream: int) -> int:
        return self.call("cuMemcpyDtoHAsync_v2", to, source, size, stream)

    def synchronize(self, stream: int) -> int:
        return self.call("cuStreamSynchronize", stream)


def content(address: int, size: int) -> bytes:
    """The bytes at an address: device memory of the emulator is host memory."""
    return ctypes.string_at(address, size)
