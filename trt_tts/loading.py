"""From a checked engine-set folder to the backend that runs it."""

from __future__ import annotations

from pathlib import Path

from trt_tts.backend import Backend
from trt_tts.errors import EngineSetError, TrtTtsError, UsageError
from trt_tts.manifest import Manifest
from trt_tts.target import require_runs_on, this_machine

CPU, TENSORRT = "cpu", "tensorrt"
BACKENDS = ("auto", CPU, TENSORRT)


def read_set(folder: Path, backend: str) -> Manifest:
    """The manifest of a set that is whole and made for `backend`, one of `BACKENDS`.

    Raises:
        UsageError: there is no such backend.
        EngineSetError: the folder is incomplete, damaged, or made for another backend.
    """
    if backend not in BACKENDS:
        raise UsageError(f"backend is {backend!r}; allowed: {', '.join(BACKENDS)}")
    manifest = Manifest.load(folder)
    if manifest.backend not in BACKENDS[1:]:
        raise EngineSetError(
            f"{folder} was built for the backend {manifest.backend!r}; this version runs: {', '.join(BACKENDS[1:])}"
        )
    if backend not in ("auto", manifest.backend):
        raise EngineSetError(
            f"{folder} was built for the backend {manifest.backend!r}, not {backend!r}. Plans and graphs do not run on "
            f"the other one; build a set for it: trt-tts build --backend {backend}"
        )
    manifest.verify(folder)
    return manifest


def open_backend(folder: Path, manifest: Manifest, device: int, threads: int, memory_limit: int | None) -> Backend:
    """Load the set's graphs.

    Raises:
        EngineSetError: the set does not run on this machine.
        CapacityError: it takes more memory than `memory_limit` bytes, or than the GPU has free.
        TrtTtsError: there is not enough memory.
    """
    if manifest.backend == TENSORRT:
        require_runs_on(this_machine(device), folder, manifest)
        from trt_tts.gpu.backend import GpuBackend

        return GpuBackend(folder, manifest, device, memory_limit)
    from trt_tts.cpu.backend import CpuBackend

    try:
        return CpuBackend(folder, manifest, threads)
    except MemoryError as error:
        raise TrtTtsError(
            f"not enough memory to load {folder}. Close other programs, or build a set with a smaller --max-batch "
            f"or --max-seconds, or with --precision int8"
        ) from error
