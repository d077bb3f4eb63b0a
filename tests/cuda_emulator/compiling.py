"""Compile the emulated CUDA driver with the system's C compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).parent
SONAME = "libcuda.so.1"
LINK_NAME = "libcuda.so"
FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1", "-g", "-fPIC", "-fvisibility=hidden", "-pthread"]


def compiler() -> str | None:
    """The path of a C compiler, or None where there is none."""
    return next((path for name in ("gcc", "cc", "clang") if (path := shutil.which(name))), None)


def build_library(folder: Path) -> Path:
    """Compile folder/libcuda.so.1, with the name that linkers look for beside it, for LD_LIBRARY_PATH=folder."""
    command = compiler()
    if command is None:
        raise RuntimeError("the emulated CUDA driver needs a C compiler: gcc, cc or clang")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / SONAME
    sources = [str(path) for path in sorted(SOURCES.glob("*.c"))]
    arguments = [command, *FLAGS, "-shared", f"-Wl,-soname,{SONAME}", "-o", str(library), *sources, "-ldl"]
    done = subprocess.run(arguments, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the emulated CUDA driver does not compile:\n{done.stderr}")
    link = folder / LINK_NAME
    link.unlink(missing_ok=True)
    link.symlink_to(SONAME)
    return library
