"""Runs the tests marked gpu in a process whose GPU and TensorRT are emulated, so that they run everywhere."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cuda_emulator.compiling import build_library, compiler
from tests.cuda_emulator.environment import emulated_environment
from tests.cuda_emulator.pycuda_wheel import pycuda_folder

ROOT = Path(__file__).parent.parent.parent
DEVICE = ["tests/cuda"]
ENGINE = ["tests/gpu"]
LITTLE_MEMORY = {"EMULATED_GPU_DESKTOP": "3400000000"}
"""Other programs have most of the card: filling all of it takes the emulation long."""

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulated GPU is compiled here: no C compiler found")


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("emulated") / "lib")


@pytest.fixture(scope="session")
def pycuda(library):
    """A folder with pycuda, built once per machine."""
    return pycuda_folder(library)


def run(environment, tests, *options):
    command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", *options, *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    print(done.stdout[-20_000:], done.stderr[-5_000:])
    assert done.returncode == 0, "tests fail on the emulated GPU; their output is above"


def sets(folder):
    """Where the process finds engine sets that were built before."""
    return {"TRT_TTS_TEST_SETS": str(folder), **LITTLE_MEMORY}


def test_device_layer_over_cuda_bindings(library):
    run(emulated_environment(library, "cuda-bindings") | LITTLE_MEMORY, DEVICE, "-m", "gpu")


def test_runtime_over_cuda_bindings(library, tiny_set):
    run(emulated_environment(library, "cuda-bindings") | sets(tiny_set.parent), ENGINE, "-m", "gpu and not slow")


@pytest.mark.slow
def test_faults_and_the_demo_voice_over_cuda_bindings(library, demo_set):
    run(emulated_environment(library, "cuda-bindings") | sets(demo_set.parent), ENGINE, "-m", "gpu and slow")


@pytest.mark.slow
def test_device_layer_over_pycuda(library, pycuda):
    run(emulated_environment(library, "pycuda", pycuda) | LITTLE_MEMORY, DEVICE, "-m", "gpu")


@pytest.mark.slow
def test_runtime_and_faults_over_pycuda(library, pycuda, tiny_set):
    tests = [*ENGINE, "--ignore", "tests/gpu/test_demo_voice.py"]
    run(emulated_environment(library, "pycuda", pycuda) | sets(tiny_set.parent), tests, "-m", "gpu")
