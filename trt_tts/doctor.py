"""What this machine has and lacks for running and building engine sets."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from trt_tts.checkpoints import ENVIRONMENT, choose_checkpoint
from trt_tts.cpu.session import MINIMUM_RUNTIME
from trt_tts.cpu.threads import usable_threads

_UV_INSTALL = f"{sys.executable} -m uv pip install --python {sys.executable}"
TORCH_COMMAND = f"{sys.executable} -m pip install uv; {_UV_INSTALL} --torch-backend cpu torch"
"""A plain `pip install torch` takes the CUDA build on Linux."""
BUILD_COMMAND = f"{sys.executable} -m pip install onnx onnx-graphsurgeon onnx-ir onnxscript safetensors"
FETCH_COMMAND = f"{sys.executable} -m pip install huggingface_hub"


@dataclass(frozen=True)
class Finding:
    """One line of the report."""

    name: str
    status: str
    """"ok", "missing" (an optional part is absent) or "problem" (nothing runs until it is fixed)."""
    detail: str
    fix: str = ""


def examine() -> Iterator[Finding]:
    """All findings, the most basic first."""
    for check in _CHECKS:
        yield check()


def release(version: str) -> tuple[int, ...]:
    """The numbers of a release, for comparison: "1.24.1" -> (1, 24, 1); suffixes are dropped."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _python() -> Finding:
    version = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("Python", "ok", version)
    return Finding("Python", "problem", version, "use Python 3.11, 3.12 or 3.13")


def _system() -> Finding:
    return Finding("system", "ok", f"{platform.system()} {platform.release()} {platform.machine()}")


def _processor() -> Finding:
    return Finding("CPU threads", "ok", f"{usable_threads()} usable of {os.cpu_count()}")


def _onnxruntime() -> Finding:
    try:
        version = importlib.metadata.version("onnxruntime")
    except importlib.metadata.PackageNotFoundError:
        return Finding("onnxruntime", "problem", "not installed", "pip install onnxruntime")
    try:
        importlib.import_module("onnxruntime")
    except ImportError as error:
        return Finding(
            "onnxruntime", "problem", f"{version}, cannot be imported: {error}", "pip install -U onnxruntime"
        )
    if release(version) < release(MINIMUM_RUNTIME):
        detail = f"{version}, older than {MINIMUM_RUNTIME}"
        return Finding("onnxruntime", "problem", detail, "pip install -U onnxruntime")
    return Finding("onnxruntime", "ok", version)


def _optional(name: str, packages: tuple[str, ...], purpose: str, fix: str) -> Callable[[], Finding]:
    def check() -> Finding:
        found = []
        for package in packages:
            try:
                found.append(f"{package} {importlib.metadata.version(package)}")
            except importlib.metadata.PackageNotFoundError:
                return Finding(name, "missing", f"{package} is not installed; needed {purpose}", fix)
        return Finding(name, "ok", ", ".join(found))

    return check


def _gpu() -> Finding:
    try:
        import pynvml
    except ImportError:
        return Finding(
            "NVIDIA GPU", "missing", "cannot look: nvidia-ml-py is not installed", "pip install nvidia-ml-py"
        )
    try:
        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
        if pynvml.nvmlDeviceGetCount() == 0:
            return Finding("NVIDIA GPU", "missing", f"driver {driver}, no GPU; the CPU backend is used")
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        name = pynvml.nvmlDeviceGetName(handle)
        detail = f"{name}, driver {driver}, {memory.free / 1e6:.0f} of {memory.total / 1e6:.0f} MB free"
        return Finding("NVIDIA GPU", "ok", f"{detail}; this version runs on the CPU")
    except pynvml.NVMLError as error:
        return Finding("NVIDIA GPU", "missing", f"no driver answers ({error}); the CPU backend is used")


def _memory() -> Finding:
    memory = psutil.virtual_memory()
    return Finding("memory", "ok", f"{memory.available / 1e6:.0f} of {memory.total / 1e6:.0f} MB free")


def _disk() -> Finding:
    usage = shutil.disk_usage(Path.cwd())
    detail = f"{usage.free / 1e6:.0f} MB free in {Path.cwd()}"
    if usage.free < 4e9:
        return Finding(
            "disk", "missing", f"{detail}; the published checkpoint takes up to 4000 MB to build", "free some"
        )
    return Finding("disk", "ok", detail)


def _checkpoint() -> Finding:
    choice = choose_checkpoint(None)
    detail = f"{choice.path} ({choice.reason})"
    if not (choice.path / "asset").is_dir():
        return Finding(
            "checkpoint", "problem", f"{detail} is no checkpoint folder", f"unset {ENVIRONMENT}, or trt-tts fetch"
        )
    return Finding("checkpoint", "ok", detail)


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _system,
    _processor,
    _onnxruntime,
    _optional("export", ("torch",), "by build and export", TORCH_COMMAND),
    _optional("build tools", ("onnx", "onnxscript", "safetensors"), "by build and export", BUILD_COMMAND),
    _optional("download", ("huggingface_hub",), "by fetch", FETCH_COMMAND),
    _optional("TensorRT", ("tensorrt",), "for GPU engines, which this version does not build", ""),
    _optional("TensorRT-RTX", ("tensorrt-rtx",), "for GPU engines, which this version does not build", ""),
    _gpu,
    _memory,
    _disk,
    _checkpoint,
)
