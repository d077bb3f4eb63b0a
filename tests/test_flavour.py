import importlib
import importlib.metadata
import sys
from types import SimpleNamespace

import pytest

from trt_tts.errors import MissingDependencyError, UsageError
from trt_tts.flavour import FLAVOURS, Flavour, aim, installed_version, load_flavour, network_flags

PIP = {"tensorrt": 'pip install "tensorrt>=10.15,<12"', "tensorrt_rtx": 'pip install "tensorrt-rtx>=1.7"'}


class FakeConfig:
    def __init__(self):
        self.num_compute_capabilities, self.targets = 0, {}

    def set_compute_capability(self, target, index):
        self.targets[index] = target


def flavour(package="tensorrt_rtx", **targets):
    targets = targets or {"CURRENT": 1, "SM75": 75, "SM86": 86, "SM120": 120}
    return Flavour(package, "1.7.1", SimpleNamespace(ComputeCapability=SimpleNamespace(**targets)))


@pytest.fixture
def installed(monkeypatch):
    """Lets only these distributions be installed."""

    def pretend(**versions):
        def answer(name):
            if name.replace("-", "_") not in versions:
                raise importlib.metadata.PackageNotFoundError(name)
            return versions[name.replace("-", "_")]

        monkeypatch.setattr(importlib.metadata, "version", answer)

    return pretend


def test_the_installed_release_is_found_under_every_name_it_is_sold_as(installed):
    installed(tensorrt="10.15.1.29", tensorrt_rtx="1.7.1.116")
    assert [installed_version(package) for package in ("tensorrt", "tensorrt_rtx")] == ["10.15.1.29", "1.7.1.116"]
    for name in ("tensorrt_cu12", "tensorrt_cu13"):
        installed(**{name: "11.0"})
        assert installed_version("tensorrt") == "11.0"
        assert installed_version("tensorrt_rtx") is None


def test_without_a_package_there_is_no_release(installed):
    installed()
    assert all(installed_version(package) is None for package in FLAVOURS)


def test_the_installed_release_is_read_without_importing_it(installed, monkeypatch):
    installed(tensorrt_rtx="1.7.1.116")
    monkeypatch.setitem(sys.modules, "tensorrt_rtx", None)
    assert installed_version("tensorrt_rtx") == "1.7.1.116"


@pytest.mark.parametrize("package", FLAVOURS)
def test_a_package_that_is_not_there_is_named_with_the_command_that_installs_it(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError) as caught:
        load_flavour(package)
    assert str(caught.value).startswith(f"{package} is needed")
    assert PIP[package] in f"{caught.value} "
    assert sys.executable in str(caught.value)


@pytest.mark.parametrize("error", [OSError("libcudart.so.13: cannot open"), ImportError("DLL load failed")])
def test_libraries_that_cannot_be_loaded_are_an_error_of_the_same_kind(error, monkeypatch):
    def fail(name):
        raise error

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(MissingDependencyError, match=str(error).split(":")[0]):
        load_flavour("tensorrt_rtx")


def test_an_unknown_flavour_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match="'onnx'; allowed: tensorrt, tensorrt_rtx"):
        load_flavour("onnx")


def test_a_loaded_flavour_says_what_it_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace(__version__="10.15.1"))
    found = load_flavour("tensorrt")
    assert (found.package, found.version, found.builds_ahead, str(found)) == (
        "tensorrt",
        "10.15.1",
        False,
        "tensorrt 10.15.1",
    )


@pytest.mark.parametrize(("wanted", "target"), [("7.5", 75), ("8.6", 86), ("12.0", 120), (None, 1)])
def test_aim_sets_one_target(wanted, target):
    config = FakeConfig()
    aim(flavour(), config, wanted)
    assert config.num_compute_capabilities == 1
    assert config.targets == {0: target}


@pytest.mark.parametrize("wanted", ["6.1", "9.0", "12.1"])
def test_aim_at_a_card_it_does_not_know_lists_those_it_knows(wanted):
    config = FakeConfig()
    with pytest.raises(UsageError) as caught:
        aim(flavour(), config, wanted)
    assert wanted in str(caught.value)
    assert all(target in str(caught.value) for target in ("SM75", "SM86", "SM120"))
    assert "CURRENT" not in str(caught.value)
    assert config.targets == {}


def test_tensorrt_builds_for_the_card_here_only():
    config, tensorrt = FakeConfig(), flavour("tensorrt")
    aim(tensorrt, config, None)
    assert config.targets == {}
    with pytest.raises(UsageError, match=r"tensorrt 1\.7\.1 builds only for the GPU it runs on; use tensorrt_rtx"):
        aim(tensorrt, config, "7.5")


def test_networks_are_strongly_typed_where_there_is_a_choice():
    one = SimpleNamespace(NetworkDefinitionCreationFlag=SimpleNamespace(STRONGLY_TYPED=1))
    none = SimpleNamespace(NetworkDefinitionCreationFlag=SimpleNamespace())
    assert network_flags(Flavour("tensorrt", "10.15", one)) == 2
    assert network_flags(Flavour("tensorrt", "11.0", none)) == 0


def test_the_real_package_builds_for_the_gtx_1650_without_a_gpu():
    trt = pytest.importorskip("tensorrt_rtx")
    found = load_flavour("tensorrt_rtx")
    assert found.builds_ahead
    assert found.version == installed_version("tensorrt_rtx")
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    config = builder.create_builder_config()
    aim(found, config, "7.5")
    assert config.num_compute_capabilities == 1
    assert config.get_compute_capability(0) == trt.ComputeCapability.SM75
    with pytest.raises(UsageError, match=r"6\.1.*SM75"):
        aim(found, config, "6.1")
    network = builder.create_network(network_flags(found))
    assert network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
