# ruff: noqa: N802 - the names are NVIDIA's
"""An emulated nvidia-ml-py for tests: one GPU, whose name and memory come from the environment.

As the emulated CUDA driver it reads EMULATED_GPU_NAME, EMULATED_GPU_MEMORY and EMULATED_GPU_DESKTOP.
"""

import os
from types import SimpleNamespace

NVML_CLOCK_MEM = 2
_NOT_INITIALISED, _NOT_FOUND = 1, 6
_MEMORY, _DESKTOP = 4294705152, 629145600
_UUID = "GPU-00000000-0000-0000-0000-000000000000"
_initialised = 0


class NVMLError(Exception):
    """What the real one raises, with its code in `value`."""

    def __init__(self, value: int) -> None:
        super().__init__(f"emulated NVML: error {value}")
        self.value = value


def nvmlInit() -> None:
    global _initialised
    _initialised += 1


def nvmlShutdown() -> None:
    global _initialised
    _require(_initialised > 0, _NOT_INITIALISED)
    _initialised -= 1


def nvmlSystemGetDriverVersion() -> str:
    _require(_initialised > 0, _NOT_INITIALISED)
    return "580.0 (emulated)"


def nvmlDeviceGetCount() -> int:
    _require(_initialised > 0, _NOT_INITIALISED)
    return 1


def nvmlDeviceGetHandleByIndex(index: int) -> str:
    _require(_initialised > 0, _NOT_INITIALISED)
    _require(index == 0, _NOT_FOUND)
    return _UUID


def nvmlDeviceGetHandleByUUID(uuid: str) -> str:
    _require(_initialised > 0, _NOT_INITIALISED)
    _require(uuid == _UUID, _NOT_FOUND)
    return _UUID


def nvmlDeviceGetUUID(handle: str) -> str:
    return _UUID


def nvmlDeviceGetName(handle: str) -> str:
    return os.environ.get("EMULATED_GPU_NAME", "GTX 1650 (emulated)")


def nvmlDeviceGetMemoryInfo(handle: str) -> SimpleNamespace:
    """Allocations of this process are not counted: the reader asks before it allocates."""
    total = int(os.environ.get("EMULATED_GPU_MEMORY", _MEMORY))
    return SimpleNamespace(total=total, used=_desktop(), free=total - _desktop())


def nvmlDeviceGetCudaComputeCapability(handle: str) -> tuple[int, int]:
    return 7, 5


def nvmlDeviceGetMemoryBusWidth(handle: str) -> int:
    return 128


def nvmlDeviceGetMaxClockInfo(handle: str, clock: int) -> int:
    return 4001


def nvmlDeviceGetComputeRunningProcesses(handle: str) -> list[SimpleNamespace]:
    return [_desktop_process()]


def nvmlDeviceGetGraphicsRunningProcesses(handle: str) -> list[SimpleNamespace]:
    return [_desktop_process()]


def _desktop_process() -> SimpleNamespace:
    return SimpleNamespace(pid=1, usedGpuMemory=_desktop())


def _desktop() -> int:
    return int(os.environ.get("EMULATED_GPU_DESKTOP", _DESKTOP))


def _require(condition: bool, code: int) -> None:
    if not condition:
        raise NVMLError(code)
