"""The driver library itself, for the calls that pycuda lacks: graphs, and the numbers of errors."""

from __future__ import annotations

import ctypes
import functools
import sys

from trt_tts.cuda.codes import error_for
from trt_tts.errors import MissingDependencyError

LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
_THREAD_LOCAL = 1
"""Capture mode: what other threads of the application do with the GPU neither breaks nor enters a capture."""
_LAST_CODE = 1000


@functools.cache
def library() -> ctypes.CDLL:
    """The loaded driver library.

    Raises:
        MissingDependencyError: there is none on this machine.
    """
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise MissingDependencyError(
            f"{LIBRARY} cannot be loaded ({error}): no NVIDIA driver is installed. Install it from nvidia.com/drivers, "
            f"or use a set built for the CPU"
        ) from error


def check(call: str, code: int) -> None:
    """Raises what `code`, returned by the driver function `call`, means; nothing for success."""
    if code:
        raise error_for(call, code, error_name(code))


def error_name(code: int) -> str:
    """The driver's name for a code."""
    name = ctypes.c_char_p()
    library().cuGetErrorName(code, ctypes.byref(name))
    return name.value.decode() if name.value else "unknown error"


@functools.cache
def codes_by_text() -> dict[str, int]:
    """The codes by the driver's description of them."""
    text = ctypes.c_char_p()
    found: dict[str, int] = {}
    for code in range(1, _LAST_CODE):
        if library().cuGetErrorString(code, ctypes.byref(text)) == 0 and text.value:
            found.setdefault(text.value.decode(), code)
    return found


def take_from_stack(context: int) -> None:
    """Remove the topmost entry for `context` from this thread's stack of contexts, whatever lies above it."""
    above: list[int] = []
    popped = ctypes.c_void_p()
    while library().cuCtxPopCurrent_v2(ctypes.byref(popped)) == 0 and popped.value != context:
        above.append(popped.value or 0)
    for other in reversed(above):
        check("cuCtxPushCurrent", library().cuCtxPushCurrent_v2(ctypes.c_void_p(other)))


class GraphCalls:
    """Capture and launch, as `Driver` has them."""

    def begin_capture(self, stream: int) -> None:
        """As `Driver.begin_capture`."""
        check("cuStreamBeginCapture", library().cuStreamBeginCapture_v2(ctypes.c_void_p(stream), _THREAD_LOCAL))

    def end_capture(self, stream: int) -> int:
        """As `Driver.end_capture`."""
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        check("cuStreamEndCapture", library().cuStreamEndCapture(ctypes.c_void_p(stream), ctypes.byref(graph)))
        made = library().cuGraphInstantiateWithFlags(ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        destroyed = library().cuGraphDestroy(graph)
        check("cuGraphInstantiateWithFlags", made)
        if destroyed:
            library().cuGraphExecDestroy(executable)
            check("cuGraphDestroy", destroyed)
        return executable.value or 0

    def launch(self, graph: int, stream: int) -> None:
        """As `Driver.launch`."""
        check("cuGraphLaunch", library().cuGraphLaunch(ctypes.c_void_p(graph), ctypes.c_void_p(stream)))

    def destroy_graph(self, graph: int) -> None:
        """As `Driver.destroy_graph`."""
        check("cuGraphExecDestroy", library().cuGraphExecDestroy(ctypes.c_void_p(graph)))
