"""The emulated CUDA driver keeps its rules. Each runs in a process that loads the emulator as its libcuda.so.1."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cuda_emulator import (
    crashes,
    rules_of_control,
    rules_of_graphs,
    rules_of_memory,
    rules_of_streams,
)
from tests.cuda_emulator.compiling import build_library, compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="no C compiler to build the emulated CUDA driver with")

ROOT = Path(__file__).parents[2]
LIMITED_MEMORY = {"EMULATED_GPU_MEMORY": "1048576", "EMULATED_GPU_DESKTOP": "262144"}
ENVIRONMENTS = {"memory_is_limited": LIMITED_MEMORY}


@pytest.fixture(scope="session")
def library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("emulated_cuda")).parent


def functions_of(*modules: ModuleType) -> list[tuple[str, str]]:
    return [
        (module.__name__, name)
        for module in modules
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    ]


def run(library_folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("EMULATED_GPU_")}
    environment |= {"LD_LIBRARY_PATH": str(library_folder), "PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(
        [sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("module", "name"),
    [
        pytest.param(*each, id=each[1])
        for each in functions_of(rules_of_control, rules_of_graphs, rules_of_memory, rules_of_streams)
    ],
)
def test_rule(library_folder: Path, module: str, name: str) -> None:
    arguments = ("-m", "tests.cuda_emulator.run_rule", module, name)
    done = run(library_folder, *arguments, **ENVIRONMENTS.get(name, {}))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("module", "name"), [pytest.param(*each, id=each[1]) for each in functions_of(crashes)])
def test_crash(library_folder: Path, module: str, name: str) -> None:
    done = run(library_folder, "-m", "tests.cuda_emulator.run_rule", module, name)
    assert (done.returncode, done.stdout) == (-signal.SIGSEGV, "inside\n"), done.stderr


def test_nothing_before_init(library_folder: Path) -> None:
    script = "import ctypes; print(ctypes.CDLL('libcuda.so.1').cuCtxSynchronize())"
    assert run(library_folder, "-c", script).stdout == "3\n"
