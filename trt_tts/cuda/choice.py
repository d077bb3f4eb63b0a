"""Which package talks to the driver."""

from __future__ import annotations

import importlib.util
import os

from trt_tts.cuda.driver import Driver
from trt_tts.errors import MissingDependencyError, UsageError
from trt_tts.shell import pip_install

ENVIRONMENT = "TRT_TTS_CUDA"
PYCUDA, BINDINGS = "pycuda", "cuda-bindings"
_MODULES = {PYCUDA: "pycuda", BINDINGS: "cuda.bindings"}


def make_driver() -> Driver:
    """pycuda where it is installed, else cuda-bindings; the environment variable TRT_TTS_CUDA names either.

    Raises:
        UsageError: the variable names neither.
        MissingDependencyError: the package, or the NVIDIA driver, is not installed or cannot be loaded.
    """
    wanted = os.environ.get(ENVIRONMENT) or next((name for name in _MODULES if _installed(name)), BINDINGS)
    if wanted not in _MODULES:
        raise UsageError(f"{ENVIRONMENT} is {wanted!r}; allowed: {', '.join(_MODULES)}")
    # Numbers as the driver's tools use them, where CUDA is not in use yet.
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    try:
        if wanted == PYCUDA:
            from trt_tts.cuda.pycuda_driver import PycudaDriver

            return PycudaDriver()
        from trt_tts.cuda.bindings_driver import BindingsDriver

        return BindingsDriver()
    except MissingDependencyError:
        raise
    except (ImportError, OSError) as error:
        raise MissingDependencyError(
            f"{wanted} cannot be imported ({error}). Install it with: {pip_install([wanted])}"
        ) from error


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(_MODULES[name]) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
