"""The driver's error codes as this product's errors."""

from __future__ import annotations

from trt_tts.errors import CudaError, DeviceLostError, DeviceMemoryError

OUT_OF_MEMORY = 2
_NO_DEVICE = {34, 46, 100, 101}
"""Stub library, device unavailable, no device, invalid device."""
_OLD_DRIVER = {35, 803, 804}
"""Insufficient driver, system driver mismatch, compatibility not supported on this device."""
_LOST = {4, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 720, 721, 999}
"""After these the context answers every call with an error: deinitialized, uncorrectable memory, illegal address,
watchdog, destroyed context, device assert, illegal instruction, launch failure and their kind."""


def error_for(call: str, code: int, name: str) -> CudaError:
    """The error to raise.

    Args:
        call: the driver function that failed.
        code: what it returned.
        name: the code's name or description.
    """
    said = f"{call}: {name} ({code})"
    if code == OUT_OF_MEMORY:
        return DeviceMemoryError(f"the GPU is out of memory ({said}). Close other programs that use it", code)
    if code in _LOST:
        return DeviceLostError(
            f"the GPU stopped answering ({said}). Restart this program; if it happens again, update the driver", code
        )
    if code in _NO_DEVICE:
        return CudaError(f"no NVIDIA GPU answers ({said}). See what the machine has: trt-tts doctor", code)
    if code in _OLD_DRIVER:
        return CudaError(f"the NVIDIA driver is too old ({said}). Update it", code)
    return CudaError(f"the CUDA driver refuses a call ({said})", code)
