"""What the NVIDIA driver says about the GPU here (NVML)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
    try:
        import pynvml
    except ImportError:
        return None
    name = visible_gpu(device)
    if name is None:
        return None
    try:
        pynvml.nvmlInit()
        try:
            return _read(pynvml, name)
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None


def _read(nvml: Any, name: str) -> GpuReading:
    by_number = name.isdigit()
    handle = nvml.nvmlDeviceGetHandleByIndex(int(name)) if by_number else nvml.nvmlDeviceGetHandleByUUID(name)
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
