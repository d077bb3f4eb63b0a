import importlib.metadata
import itertools
import sys

import pytest

from trt_tts import doctor
from trt_tts.checkpoints import ENVIRONMENT
from trt_tts.cpu.session import MINIMUM_RUNTIME
from trt_tts.demo import demo_checkpoint

REAL_VERSION = importlib.metadata.version


def finding(name):
    found = [item for item in doctor.examine() if item.name == name]
    assert len(found) == 1
    return found[0]


@pytest.fixture
def installed(monkeypatch):
    """Pretends that a package has a version, or None: that it is not installed."""

    def pretend(package, version):
        def answer(name):
            if name != package:
                return REAL_VERSION(name)
            if version is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return version

        monkeypatch.setattr(importlib.metadata, "version", answer)

    return pretend


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.24.1", (1, 24, 1)),
        ("1.24", (1, 24)),
        ("2", (2,)),
        ("1.24.1+cu12", (1, 24, 1)),
        ("1.24.0rc1", (1, 24, 0)),
        ("1.24.1.post1", (1, 24, 1)),
        ("1.25.0.dev20250101", (1, 25, 0)),
        ("1.25.0b2", (1, 25, 0)),
        ("", ()),
    ],
)
def test_release_takes_the_numbers_and_drops_suffixes(version, expected):
    assert doctor.release(version) == expected


def test_releases_compare_as_numbers():
    ordered = ["1.9.9", "1.24.0", "1.24.1", "1.24.10", "1.100.0", "2.0.0"]
    assert all(doctor.release(a) < doctor.release(b) for a, b in itertools.pairwise(ordered))


@pytest.mark.parametrize("version", ["1.20.0", "1.24.4", "1.9.1", "0.99", "1.24.0rc1"])
def test_an_old_onnxruntime_is_a_problem_with_the_command_that_fixes_it(version, installed):
    installed("onnxruntime", version)
    found = finding("onnxruntime")
    assert found.status == "problem"
    assert version in found.detail
    assert MINIMUM_RUNTIME in found.detail
    assert found.fix == "pip install -U onnxruntime"


@pytest.mark.parametrize("version", [MINIMUM_RUNTIME, "1.25.10", "1.32.0", "1.100.0", "2.0.0"])
def test_a_new_onnxruntime_is_fine(version, installed):
    installed("onnxruntime", version)
    found = finding("onnxruntime")
    assert (found.status, found.detail) == ("ok", version)


def test_a_lacking_onnxruntime_is_a_problem_with_the_command_that_fixes_it(installed):
    installed("onnxruntime", None)
    found = finding("onnxruntime")
    assert found.status == "problem"
    assert found.fix.startswith("pip install")


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("torch", "export"),
        ("onnxscript", "build tools"),
        ("safetensors", "build tools"),
        ("huggingface_hub", "download"),
        ("tensorrt", "tensorrt"),
    ],
)
def test_a_lacking_optional_package_is_missing_and_named(package, name, installed):
    installed(package, None)
    found = finding(name)
    assert found.status == "missing"
    assert package in found.detail


@pytest.mark.parametrize("name", ["export", "build tools", "download"])
def test_a_lacking_package_of_the_product_comes_with_its_command(name, monkeypatch):
    def nothing(package):
        raise importlib.metadata.PackageNotFoundError(package)

    monkeypatch.setattr(importlib.metadata, "version", nothing)
    found = finding(name)
    assert found.status == "missing"
    assert "install" in found.fix


@pytest.mark.parametrize(
    ("version", "status"),
    [((3, 10, 9), "problem"), ((3, 11, 0), "ok"), ((3, 12, 4), "ok"), ((3, 13, 9), "ok"), ((3, 14, 0), "problem")],
)
def test_python_is_fine_in_the_supported_releases_only(version, status, monkeypatch):
    monkeypatch.setattr(sys, "version_info", version)
    assert finding("Python").status == status


def test_every_finding_is_ok_missing_or_a_problem_and_is_named_once():
    findings = list(doctor.examine())
    assert {item.status for item in findings} <= {"ok", "missing", "problem"}
    assert all(item.name and item.detail for item in findings)
    assert all(item.fix for item in findings if item.status == "problem")
    assert len({item.name for item in findings}) == len(findings)


def test_the_threads_are_those_the_runtime_uses(monkeypatch):
    monkeypatch.setattr(doctor, "usable_threads", lambda: 3)
    assert finding("CPU threads").detail.startswith("3 usable of ")


@pytest.mark.parametrize("made", [False, True], ids=["missing", "empty"])
def test_a_checkpoint_that_is_none_is_a_problem_that_names_folder_and_variable(made, tmp_path, monkeypatch):
    folder = tmp_path / "my checkpoint"
    if made:
        folder.mkdir()
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    found = finding("checkpoint")
    assert found.status == "problem"
    assert str(folder) in found.detail
    assert ENVIRONMENT in found.detail
    assert "trt-tts fetch" in found.fix


def test_a_checkpoint_of_the_environment_is_fine(monkeypatch):
    monkeypatch.setenv(ENVIRONMENT, str(demo_checkpoint()))
    found = finding("checkpoint")
    assert found.status == "ok"
    assert str(demo_checkpoint()) in found.detail


def test_little_disk_space_is_reported_and_stops_nothing(monkeypatch):
    usage = doctor.shutil.disk_usage(".")._replace(free=1_500_000_000)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)
    found = finding("disk")
    assert found.status == "missing"
    assert "1500 MB" in found.detail
