"""What the NVIDIA driver says about the GPU here (NVML)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import psutil

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class GpuReading:
    """What the driver says about one GPU: bytes, bits and MHz; None where it does not say."""

    name: str
    memory: int
    used: int
    compute_capability: str
    driver: str
    bus_width: int | None = None
    memory_clock_mhz: int | None = None

    @property
    def bandwidth_gbs(self) -> float | None:
        """Peak of the memory, 1e9 bytes/s: NVML's clock counts half the data rate, for GDDR5 and GDDR6 alike."""
        if self.bus_width is None or self.memory_clock_mhz is None:
            return None
        return 2 * self.memory_clock_mhz * self.bus_width / 8 / 1000


@dataclass(frozen=True)
class MemoryUser:
    """A program that holds memory of a GPU."""

    name: str
    process: int
    bytes: int | None
    """None where the driver does not say, as on Windows."""

    def __str__(self) -> str:
        size = "an unknown amount" if self.bytes is None else f"{self.bytes / 1e6:.0f} MB"
        return f"{self.name} (process {self.process}): {size}"


def visible_gpu(device: int) -> str | None:
    """What the driver calls GPU `device`: its number or its UUID; None where CUDA_VISIBLE_DEVICES hides it.

    The variable hides and renumbers GPUs for CUDA, not for the driver's own library.
    """
    mask = os.environ.get("CUDA_VISIBLE_DEVICES")
    if mask is None:
        return str(device)
    visible = [item.strip() for item in mask.split(",")]
    if device >= len(visible) or visible[device] in ("", "-1"):
        return None
    return visible[device]


def read_gpu(device: int = 0) -> GpuReading | None:
    """GPU number `device` of this machine, None where nvidia-ml-py, the driver or the GPU is missing or hidden."""
    return _ask(device, _read)


def memory_users(device: int = 0) -> tuple[MemoryUser, ...]:
    """The programs that hold memory of GPU number `device`, the largest first; none where the driver does not say."""
    return _ask(device, _read_users) or ()


def _ask(device: int, question: Callable[[Any, Any], _Answer]) -> _Answer | None:
    """The answer to a question about a GPU, by its handle."""
    try:
        import pynvml
    except ImportError:
        return None
    name = visible_gpu(device)
    if name is None:
        return None
    by_number = name.isdigit()
    find = pynvml.nvmlDeviceGetHandleByIndex if by_number else pynvml.nvmlDeviceGetHandleByUUID
    try:
        pynvml.nvmlInit()
        try:
            return question(pynvml, find(int(name) if by_number else name))
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def _read_users(nvml: Any, handle: Any) -> tuple[MemoryUser, ...]:
    lists = (nvml.nvmlDeviceGetComputeRunningProcesses, nvml.nvmlDeviceGetGraphicsRunningProcesses)
    found = {item.pid: item.usedGpuMemory for ask in lists for item in ask(handle) if item.pid != os.getpid()}
    users = (MemoryUser(_program(pid), pid, size or None) for pid, size in found.items())
    return tuple(sorted(users, key=lambda user: -(user.bytes or 0)))


def _program(process: int) -> str:
    try:
        return str(psutil.Process(process).name())
    except psutil.Error:
        return "a program"


def _read(nvml: Any, handle: Any) -> GpuReading:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)

    def optional(ask: Callable[[], int]) -> int | None:
        try:
            return ask() or None
        except (AttributeError, nvml.NVMLError):  # an older nvidia-ml-py lacks the function, an older driver refuses it
            return None

    return GpuReading(
        name=nvml.nvmlDeviceGetName(handle),
        memory=memory.total,
        used=memory.used,
        compute_capability=f"{major}.{minor}",
        driver=nvml.nvmlSystemGetDriverVersion(),
        bus_width=optional(lambda: nvml.nvmlDeviceGetMemoryBusWidth(handle)),
        memory_clock_mhz=optional(lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)),
    )
