"""What this machine has and lacks for running and building engine sets."""

from __future__ import annotations

import importlib.metadata
import importlib.util
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
from trt_tts.flavour import TENSORRT, TENSORRT_RTX, install_command, installed_version
from trt_tts.gpu_reading import read_gpu
from trt_tts.shell import command, pip_install

_UV_INSTALL = command(
    sys.executable, *["-m", "uv", "pip", "install", "--torch-backend", "cpu", "torch", "--python"], sys.executable
)
TORCH_COMMAND = f"{pip_install(['uv'])}; {_UV_INSTALL}"
"""A plain `pip install torch` takes the CUDA build on Linux."""
BUILD_PACKAGES = ("onnx", "onnx-graphsurgeon", "onnx-ir", "onnxscript", "safetensors")
BUILD_COMMAND = pip_install(BUILD_PACKAGES)
FETCH_COMMAND = pip_install(["huggingface_hub"])


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


def _tensorrt(package: str, purpose: str) -> Callable[[], Finding]:
    def check() -> Finding:
        version = installed_version(package)
        if version is None:
            return Finding(package, "missing", f"{package} is not installed; it {purpose}", install_command(package))
        return Finding(package, "ok", version)

    return check


def _cuda() -> Finding:
    for package in ("pycuda", "cuda-bindings"):
        try:
            return Finding("CUDA access", "ok", f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    detail = "neither cuda-bindings nor pycuda is installed; either is needed to run sets on a GPU"
    return Finding("CUDA access", "missing", detail, pip_install(["cuda-bindings"]))


def _gpu() -> Finding:
    gpu = read_gpu()
    if gpu is None and importlib.util.find_spec("pynvml") is None:
        return Finding(
            "NVIDIA GPU", "missing", "cannot look: nvidia-ml-py is not installed", pip_install(["nvidia-ml-py"])
        )
    if gpu is None:
        return Finding("NVIDIA GPU", "missing", "none answers; the CPU backend is used")
    free = f"{(gpu.memory - gpu.used) / 1e6:.0f} of {gpu.memory / 1e6:.0f} MB free"
    detail = f"{gpu.name}, compute capability {gpu.compute_capability}, driver {gpu.driver}, {free}"
    return Finding("NVIDIA GPU", "ok", detail)


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
    _optional(
        "build tools", ("onnx", "onnx-graphsurgeon", "onnxscript", "safetensors"), "by build and export", BUILD_COMMAND
    ),
    _optional("download", ("huggingface_hub",), "by fetch", FETCH_COMMAND),
    _tensorrt(TENSORRT, "builds sets on the GPU they are for"),
    _tensorrt(TENSORRT_RTX, "builds sets for a GPU that is not here"),
    _cuda,
    _gpu,
    _memory,
    _disk,
    _checkpoint,
)
