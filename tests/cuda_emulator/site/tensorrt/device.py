"""The emulated CUDA driver, as far as TensorRT reaches for it."""

import ctypes
import sys
import weakref
from collections.abc import Callable
from functools import cache

OUT_OF_MEMORY = 2
ILLEGAL_ADDRESS = 700
LAUNCH_FAILED = 719
Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_HANDLE, _ADDRESS, _SIZE = ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_size_t
_ARGUMENTS = {
    "cuInit": (ctypes.c_uint,),
    "cuCtxGetCurrent": (ctypes.POINTER(_HANDLE),),
    "cuCtxSetCurrent": (_HANDLE,),
    "cuDevicePrimaryCtxRetain": (ctypes.POINTER(_HANDLE), ctypes.c_int),
    "cuMemAlloc_v2": (ctypes.POINTER(_ADDRESS), _SIZE),
    "cuMemFree_v2": (_ADDRESS,),
    "emu_enqueue": (_HANDLE, Callback, _HANDLE),
    "emu_raise": (ctypes.c_int,),
    "emu_in_device": (_ADDRESS, _ADDRESS),
    "emu_is_capturing": (_HANDLE,),
    "emu_invalidate": (_HANDLE, ctypes.c_char_p),
}


class DeviceError(RuntimeError):
    """The driver refused; the text names the function and the code."""


@cache
def _driver() -> ctypes.CDLL:
    library = ctypes.CDLL("libcuda.so.1")
    for name, arguments in _ARGUMENTS.items():
        getattr(library, name).argtypes = arguments
    return library


def _require(function: str, *arguments: object) -> None:
    code = getattr(_driver(), function)(*arguments)
    if code:
        # As the real one words it.
        reason = "OutOfMemory (out of memory)" if code == OUT_OF_MEMORY else "Cuda Driver"
        raise DeviceError(f"Error Code {code}: {reason} in {function}")


def use_primary_context() -> None:
    """Make the primary context current where none is, as the CUDA runtime does within the real builder.

    Only the builder may: whoever runs plans is to make a context current himself.
    """
    context = _HANDLE()
    _require("cuInit", 0)
    _require("cuCtxGetCurrent", ctypes.byref(context))
    if not context:
        _require("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        _require("cuCtxSetCurrent", context)


class DeviceBlock:
    """Device memory that is freed when the object is collected."""

    def __init__(self, size: int) -> None:
        address = _ADDRESS()
        _require("cuMemAlloc_v2", ctypes.byref(address), size)
        self.address, self.bytes = address.value, size
        # What still lives when the process ends is left to the emulator, which counts it as leaked.
        weakref.finalize(self, _free, self.address, size).atexit = False


def _free(address: int, size: int) -> None:
    code = _driver().cuMemFree_v2(address)
    if code:  # nobody catches what a finalizer raises
        print(f"emulated TensorRT: {size} bytes at {address:#x} are not freed: error {code}", file=sys.stderr)


def enqueue(stream: int, callback: Callable[[int], None], key: int) -> None:
    """Queue `callback(key)` in stream order.

    Raises:
        DeviceError: the stream takes no work.
    """
    _require("emu_enqueue", stream, callback, key)


def lose(code: int) -> None:
    """Lose the device, as a kernel that fails does."""
    _driver().emu_raise(code)


def is_live(address: int, size: int) -> bool:
    """Whether a range lies inside one allocation."""
    return bool(_driver().emu_in_device(address, size))


def is_capturing(stream: int) -> bool:
    return bool(_driver().emu_is_capturing(stream))


def break_capture(stream: int, why: str) -> None:
    _driver().emu_invalidate(stream, why.encode())
