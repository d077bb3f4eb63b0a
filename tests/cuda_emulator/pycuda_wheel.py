"""PyCUDA for the emulator: built from its source distribution, once per Python version, without a CUDA toolkit."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import platformdirs

PYCUDA = "2026.1"
# The headers decide which functions PyCUDA imports, and symbols.c has those of this release.
HEADER_PACKAGES = ("nvidia-cuda-runtime==13.5.*", "nvidia-cuda-profiler-api==13.5.*")
HEADER_FOLDER = Path("nvidia/cu13/include")
TAIL = 3000
CACHE = Path(platformdirs.user_cache_dir("trt-tts-tests", appauthor=False))
"""Builds last from one test run to the next."""


def pycuda_folder(library: Path, cache: Path = CACHE) -> Path:
    """A folder for PYTHONPATH with a PyCUDA for this Python; LD_LIBRARY_PATH selects the driver that it loads."""
    folder = cache / f"pycuda-{PYCUDA}-{sys.implementation.cache_tag}"
    if folder.is_dir():
        return folder
    print(f"building pycuda {PYCUDA} for the emulated GPU (about two minutes, once)", file=sys.stderr, flush=True)
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="building-") as name:
        installed = _build(Path(name), library)
        try:
            installed.rename(folder)
        except OSError:
            # Another test run may have been faster; its folder serves as well.
            if not folder.is_dir():
                raise
    return folder


def _build(work: Path, library: Path) -> Path:
    source = _source(work)
    (source / "siteconf.py").write_text(_configuration(_headers(work), library.parent))
    _pip("wheel", "--no-deps", "--wheel-dir", str(work), str(source))
    (wheel,) = work.glob("pycuda-*.whl")
    installed = work / "installed"
    _pip("install", "--target", str(installed), str(wheel))
    return installed


def _source(work: Path) -> Path:
    # pip prepares what it downloads, and PyCUDA's setup.py is content without a toolkit at that point.
    _pip("download", "--no-deps", "--no-binary", "pycuda", "--dest", str(work), f"pycuda=={PYCUDA}")
    with tarfile.open(next(work.glob("pycuda-*.tar.gz"))) as archive:
        archive.extractall(work, filter="data")
    return work / f"pycuda-{PYCUDA}"


def _headers(work: Path) -> Path:
    _pip("download", "--no-deps", "--dest", str(work), *HEADER_PACKAGES)
    for wheel in work.glob("nvidia_*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(work / "headers")
    return work / "headers" / HEADER_FOLDER


def _configuration(headers: Path, libraries: Path) -> str:
    """The siteconf.py that PyCUDA's configure.py would write: no toolkit, no GL, no curand."""
    settings = {
        "USE_SHIPPED_BOOST": True,
        "CUDA_TRACE": False,
        "CUDA_ROOT": "",
        "CUDA_INC_DIR": [str(headers)],
        "CUDA_ENABLE_GL": False,
        "CUDA_ENABLE_CURAND": False,
        "CUDADRV_LIB_DIR": [str(libraries)],
        "CUDADRV_LIBNAME": ["cuda"],
        "BOOST_INC_DIR": [],
        "BOOST_LIB_DIR": [],
        "BOOST_COMPILER": "gcc43",
        "BOOST_PYTHON_LIBNAME": [],
        "BOOST_THREAD_LIBNAME": [],
        "CXXFLAGS": ["-O1", "-g0"],  # compiled in a fraction of the time of Python's own -O3 -g
        "LDFLAGS": [],
    }
    return "".join(f"{name} = {value!r}\n" for name, value in settings.items())


def _pip(*arguments: str) -> None:
    if shutil.which("g++") is None:
        raise RuntimeError("pycuda needs the C++ compiler g++")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise RuntimeError(f"pip {arguments[0]} failed:\n{done.stdout[-TAIL:]}")
