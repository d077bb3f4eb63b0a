"""Installs the CPU build of torch into the running Python's environment; never the CUDA build.

Exporting a checkpoint needs torch but no GPU, and on Linux a plain `pip install torch` takes several GB of CUDA
libraries. The CPU build has its own label ("+cpu") and index: pip takes it where it can see it, uv knows the index.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

VERSION = "2.13.0"


def main() -> int:
    """Exit code 0 when torch is there."""
    if importlib.util.find_spec("torch"):
        return 0
    if sys.platform != "linux":  # elsewhere the ordinary build is the CPU build
        return _run("pip", "install", f"torch=={VERSION}")
    if _run("pip", "install", "--quiet", f"torch=={VERSION}+cpu") == 0:
        return 0
    print("torch: pip sees no CPU build; asking uv", file=sys.stderr)
    if _run("pip", "install", "--quiet", "uv") == 0:
        code = _run("uv", "pip", "install", "--python", sys.executable, f"torch=={VERSION}", "--torch-backend", "cpu")
        if code == 0:
            return 0
    print(
        "torch: no CPU build could be installed. Choose Linux, Pip, CPU on PyTorch's own install page", file=sys.stderr
    )
    return 1


def _run(module: str, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
