import importlib.util

import pytest

from trt_tts.cuda import bindings_driver, choice, pycuda_driver
from trt_tts.errors import MissingDependencyError, UsageError


@pytest.fixture(autouse=True)
def drivers(monkeypatch):
    """Stand for both drivers by their names."""
    monkeypatch.setattr(pycuda_driver, "PycudaDriver", lambda: "pycuda")
    monkeypatch.setattr(bindings_driver, "BindingsDriver", lambda: "cuda-bindings")
    monkeypatch.delenv(choice.ENVIRONMENT, raising=False)


def install(monkeypatch, *modules):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name if name in modules else None)


@pytest.mark.parametrize(
    ("modules", "chosen"),
    [
        (("pycuda", "cuda.bindings"), "pycuda"),
        (("pycuda",), "pycuda"),
        (("cuda.bindings",), "cuda-bindings"),
        ((), "cuda-bindings"),
    ],
)
def test_pycuda_comes_first_where_it_is_installed(modules, chosen, monkeypatch):
    install(monkeypatch, *modules)
    assert choice.make_driver() == chosen


@pytest.mark.parametrize("wanted", ["pycuda", "cuda-bindings"])
def test_the_environment_has_the_last_word(wanted, monkeypatch):
    install(monkeypatch, "pycuda", "cuda.bindings")
    monkeypatch.setenv(choice.ENVIRONMENT, wanted)
    assert choice.make_driver() == wanted


def test_another_name_is_refused_with_both(monkeypatch):
    monkeypatch.setenv(choice.ENVIRONMENT, "cupy")
    with pytest.raises(UsageError, match=r"TRT_TTS_CUDA is 'cupy'; allowed: pycuda, cuda-bindings"):
        choice.make_driver()


@pytest.mark.parametrize("wanted", ["pycuda", "cuda-bindings"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(wanted, monkeypatch):
    def missing():
        raise ImportError("No module named 'it'")

    monkeypatch.setattr(pycuda_driver, "PycudaDriver", missing)
    monkeypatch.setattr(bindings_driver, "BindingsDriver", missing)
    monkeypatch.setenv(choice.ENVIRONMENT, wanted)
    with pytest.raises(MissingDependencyError, match=rf"{wanted} cannot be imported.*install.*{wanted}"):
        choice.make_driver()
