"""What a TensorRT set was built for, against the machine it is on."""

from __future__ import annotations

import importlib.util
import platform
from dataclasses import dataclass
from pathlib import Path

from trt_tts.demo import demo_checkpoint
from trt_tts.errors import EngineSetError
from trt_tts.flavour import FLAVOURS, install_command, installed_version
from trt_tts.gpu_reading import GpuReading, read_gpu
from trt_tts.manifest import Manifest
from trt_tts.shell import command, pip_install


@dataclass(frozen=True)
class Machine:
    """What decides whether a plan runs."""

    system: str
    gpu: GpuReading | None
    tensorrt: dict[str, str]
    """Flavour -> installed release."""


def system_name() -> str:
    """Operating system and processor, "Linux x86_64"."""
    return f"{platform.system()} {platform.machine().replace('AMD64', 'x86_64')}"


def this_machine(device: int = 0) -> Machine:
    """Read the machine, with GPU number `device`."""
    versions = {package: installed_version(package) for package in FLAVOURS}
    return Machine(system_name(), read_gpu(device), {name: found for name, found in versions.items() if found})


def require_runs_on(machine: Machine, folder: Path, manifest: Manifest) -> None:
    """Check a TensorRT set against a machine: plans run on one system, one release and one compute capability only.

    Raises:
        EngineSetError: names both sides and the command that builds a set which runs there.
    """
    target = manifest.target
    package, _, version = target.runtime.partition(" ")
    if package not in FLAVOURS:
        raise EngineSetError(f"{folder}: its manifest names the runtime {target.runtime!r}, which is no TensorRT")
    if target.system != machine.system:
        raise EngineSetError(_differs(folder, "for", target.system, "this machine is", machine.system, manifest))
    if machine.gpu is None:
        raise EngineSetError(
            f"{folder} was built for a GPU of compute capability {target.compute_capability} ({target.card}) and "
            f"{target.runtime}; {_no_gpu()}. Copy the set to a machine with that card, or build one that runs here: "
            f"trt-tts build --backend cpu"
        )
    if package not in machine.tensorrt:
        raise EngineSetError(
            f"{folder} was built with {target.runtime}; {package} is not installed here. Install it with: "
            f"{install_command(package, version)}"
        )
    if machine.tensorrt[package] != version:
        found = f"{package} {machine.tensorrt[package]}"
        raise EngineSetError(_differs(folder, "with", target.runtime, "installed here is", found, manifest))
    if target.compute_capability != machine.gpu.compute_capability:
        found = f"{machine.gpu.name} has {machine.gpu.compute_capability}"
        built_for = f"compute capability {target.compute_capability} ({target.card})"
        raise EngineSetError(_differs(folder, "for", built_for, "", found, manifest))


def _no_gpu() -> str:
    if importlib.util.find_spec("pynvml") is None:
        return f"no GPU can be seen on this machine without nvidia-ml-py ({pip_install(['nvidia-ml-py'])})"
    return "no NVIDIA GPU answers on this machine"


def rebuild_command(folder: Path, manifest: Manifest) -> str:
    """The command that builds a set anew, for the card that is here."""
    limits = manifest.limits
    words = ["trt-tts", "build", "--backend", manifest.backend, "--precision", manifest.precision]
    words += ["--max-batch", str(limits.max_batch)]
    if limits.max_seconds is not None:
        words += ["--max-seconds", f"{limits.max_seconds:g}"]
    if manifest.checkpoint.name != demo_checkpoint().name:
        words += ["--checkpoint", manifest.checkpoint.name]
    if manifest.precision == "int8" and manifest.backend == "tensorrt":
        words += ["--calibration", "calibration.json"]
    return command(*words, "--force", "-o", folder)


def _differs(folder: Path, relation: str, built: str | None, here: str, found: str, manifest: Manifest) -> str:
    place = f"{here} {found}".strip()
    return (
        f"{folder} was built {relation} {built}; {place}. Plans run nowhere else. Build it again here: "
        f"{rebuild_command(folder, manifest)}"
    )
