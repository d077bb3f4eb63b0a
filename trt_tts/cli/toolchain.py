"""Lazy access to the toolchain: it needs packages that the runtime does without."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from trt_tts.checkpoints import choose_checkpoint
from trt_tts.cli.console import note
from trt_tts.doctor import BUILD_COMMAND, TORCH_COMMAND
from trt_tts.errors import MissingDependencyError


def require_build_extra() -> None:
    """Raises MissingDependencyError, with the command to run, when a package of the toolchain is missing."""
    try:
        importlib.import_module("torch")
    except ImportError as error:
        raise MissingDependencyError(
            f"torch (its CPU build) is needed to export a checkpoint. Install it with: {TORCH_COMMAND} ({error})"
        ) from error
    _require("onnx", "onnxscript", "safetensors")


def require_graph_tools() -> None:
    """As `require_build_extra`, with what sets for GPUs need besides."""
    require_build_extra()
    _require("onnx_graphsurgeon")


def _require(*packages: str) -> None:
    for package in packages:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise MissingDependencyError(
                f"{package} is needed to build engine sets. Install it with: {BUILD_COMMAND} ({error})"
            ) from error


def load_chosen_checkpoint(named: Path | None) -> Any:
    """The `Checkpoint` a command works on; says which and why on stderr."""
    require_build_extra()
    from trt_tts.builders.checkpoint import load_checkpoint

    choice = choose_checkpoint(named)
    note(f"checkpoint: {choice.path} ({choice.reason})")
    return load_checkpoint(choice.path)
