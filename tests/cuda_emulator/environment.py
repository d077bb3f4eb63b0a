"""The environment of a process that runs on the emulated GPU."""

from __future__ import annotations

import os
from pathlib import Path

SITE = Path(__file__).parent / "site"
EMULATED = "TRT_TTS_EMULATED_GPU"
"""Set where the GPU is the emulated one: there, no test of the GPU may be skipped."""


def emulated_environment(library: Path, driver: str, packages: Path | None = None) -> dict[str, str]:
    """For a process whose libcuda is `library` and whose TensorRT is the stand-in.

    Args:
        library: as `build_library` returns it.
        driver: what TRT_TTS_CUDA names.
        packages: a folder with further packages, pycuda for one.
    """
    paths = [str(SITE), *([str(packages)] if packages else []), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(library.parent),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "TRT_TTS_CUDA": driver,
        EMULATED: "1",
    }
