import platform
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from trt_tts import target as target_module
from trt_tts.errors import EngineSetError
from trt_tts.gpu_reading import GpuReading
from trt_tts.manifest import Limits, Manifest, Target
from trt_tts.target import Machine, rebuild_command, require_runs_on, system_name, this_machine

GPU = GpuReading("NVIDIA GeForce GTX 1650", 4096 << 20, 300 << 20, "7.5", "580.95.05")
MACHINE = Machine("Linux x86_64", GPU, {"tensorrt": "10.15.1.29", "tensorrt_rtx": "1.7.1.116"})
FOLDER = Path("/sets/my engines/gtx 1650")


@pytest.fixture
def manifest(tiny_set):
    """A set for a GTX 1650 under Linux."""

    def make(runtime="tensorrt_rtx 1.7.1.116", **changes):
        target = Target(
            runtime=runtime,
            minimum=runtime.split()[1],
            card="gtx1650",
            compute_capability="7.5",
            system="Linux x86_64",
        )
        limits = Limits(max_batch=3, capacity=1024, prefill_chunk=128)
        loaded = Manifest.load(tiny_set)
        return replace(loaded, backend="tensorrt", precision="fp16", limits=limits, target=replace(target, **changes))

    return make


def refusal(machine, manifest):
    with pytest.raises(EngineSetError) as caught:
        require_runs_on(machine, FOLDER, manifest)
    message = str(caught.value)
    assert message.startswith(f"{FOLDER} was built ")
    return message


def assert_rebuilds(message):
    argv = shlex.split(message[message.index("trt-tts build") :])
    assert argv[:2] == ["trt-tts", "build"]
    assert "--force" in argv
    for option, value in (
        ("--backend", "tensorrt"),
        ("--precision", "fp16"),
        ("--max-batch", "3"),
        ("-o", str(FOLDER)),
    ):
        assert argv[argv.index(option) + 1] == value


@pytest.mark.parametrize("runtime", ["tensorrt_rtx 1.7.1.116", "tensorrt 10.15.1.29"])
def test_a_set_runs_on_the_machine_it_was_built_for(runtime, manifest):
    require_runs_on(MACHINE, FOLDER, manifest(runtime))


def test_another_card_of_the_same_compute_capability_will_do(manifest):
    require_runs_on(replace(MACHINE, gpu=replace(GPU, name="Tesla T4")), FOLDER, manifest())


@pytest.mark.parametrize("here", ["Windows x86_64", "Linux aarch64"])
def test_another_system_is_refused_with_both_and_the_command(here, manifest):
    message = refusal(replace(MACHINE, system=here), manifest())
    assert "Linux x86_64" in message
    assert here in message
    assert_rebuilds(message)


def test_a_machine_without_a_gpu_is_refused_with_the_card_and_a_backend_that_runs(manifest):
    message = refusal(replace(MACHINE, gpu=None), manifest())
    for said in ("7.5", "gtx1650", "tensorrt_rtx 1.7.1.116", "no NVIDIA GPU", "trt-tts build --backend cpu"):
        assert said in message


@pytest.mark.parametrize(
    ("runtime", "distribution"), [("tensorrt_rtx 1.7.1.116", "tensorrt-rtx"), ("tensorrt 10.15.1.29", "tensorrt")]
)
def test_a_missing_package_is_refused_with_the_command_that_installs_that_release(runtime, distribution, manifest):
    package, version = runtime.split()
    others = {name: found for name, found in MACHINE.tensorrt.items() if name != package}
    message = refusal(replace(MACHINE, tensorrt=others), manifest(runtime))
    assert runtime in message
    assert f"{package} is not installed" in message
    command = message[message.index("pip install") :].rstrip(".").split()
    assert f"{distribution}=={version}" in command
    assert sum("==" in word for word in command) == 1


@pytest.mark.parametrize("found", ["1.6.0.40", "1.7.1.115", "1.8.0.1"])
def test_another_release_is_refused_with_both_and_the_command(found, manifest):
    message = refusal(replace(MACHINE, tensorrt={"tensorrt_rtx": found}), manifest())
    assert "tensorrt_rtx 1.7.1.116" in message
    assert f"tensorrt_rtx {found}" in message
    assert_rebuilds(message)


def test_the_other_package_does_not_stand_in(manifest):
    machine = replace(MACHINE, tensorrt={"tensorrt": "1.7.1.116"})
    assert "tensorrt_rtx is not installed" in refusal(machine, manifest())


@pytest.mark.parametrize(
    ("name", "capability"), [("NVIDIA GeForce RTX 3060", "8.6"), ("NVIDIA GeForce GTX 1050 Ti", "6.1")]
)
def test_another_compute_capability_is_refused_with_both_and_the_command(name, capability, manifest):
    gpu = replace(GPU, name=name, compute_capability=capability)
    message = refusal(replace(MACHINE, gpu=gpu), manifest())
    for said in ("7.5", "gtx1650", name, capability):
        assert said in message
    assert_rebuilds(message)


def test_the_system_is_told_before_what_could_not_be_read_there(manifest):
    message = refusal(Machine("Windows x86_64", None, {}), manifest())
    assert "Windows x86_64" in message


def test_paths_with_spaces_are_quoted(manifest):
    argv = shlex.split(rebuild_command(FOLDER, manifest()))
    assert argv[-1] == str(FOLDER)
    assert_rebuilds(rebuild_command(FOLDER, manifest()))


@pytest.mark.parametrize(("reported", "named"), [("AMD64", "x86_64"), ("x86_64", "x86_64"), ("aarch64", "aarch64")])
def test_windows_and_linux_name_the_same_processor_alike(reported, named, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Windows")
    monkeypatch.setattr(platform, "machine", lambda: reported)
    assert system_name() == f"Windows {named}"


def test_this_machine_lists_what_is_installed_and_the_gpu(monkeypatch):
    monkeypatch.setattr(target_module, "installed_version", {"tensorrt": None, "tensorrt_rtx": "1.7.1.116"}.get)
    monkeypatch.setattr(target_module, "read_gpu", lambda device: replace(GPU, name=f"GPU {device}"))
    machine = this_machine(1)
    assert machine.tensorrt == {"tensorrt_rtx": "1.7.1.116"}
    assert machine.gpu.name == "GPU 1"
    assert machine.system == system_name()
