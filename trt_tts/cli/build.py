"""`trt-tts build`."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import megabytes, note, out, progress
from trt_tts.cli.toolchain import load_chosen_checkpoint, require_build_extra
from trt_tts.errors import UsageError
from trt_tts.files import require_new
from trt_tts.manifest import Manifest

DEFAULT_PRECISION = "int8"


def build(
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder.")] = None,
    backend: Annotated[str, typer.Option(help="auto or cpu.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (int8 on the CPU), fp32, int8 or int4.")] = "auto",
    max_batch: Annotated[int, typer.Option(help="Sequences generated at a time.")] = 1,
    max_seconds: Annotated[
        float | None, typer.Option(help="Longest speech of one segment, in seconds; without it 2048 positions.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The set's folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
) -> None:
    """Build an engine set from a checkpoint.

    Without --checkpoint: $TRT_TTS_CHECKPOINT, then a fetched one, then the demo voice.
    Without -o: ./engines/cpu-<precision>.

    [bold]Examples[/bold]

      trt-tts build

      trt-tts build --precision fp32 --max-batch 4 -o engines/studio

      trt-tts build --checkpoint ChatTTS --max-seconds 30
    """
    if backend not in ("auto", "cpu"):
        raise UsageError(f"backend {backend!r} cannot be built by this version; allowed: auto, cpu")
    chosen = DEFAULT_PRECISION if precision == "auto" else precision
    require_build_extra()
    from trt_tts.builders.cpu_set import CpuBuild, build_cpu_set

    request = CpuBuild(chosen, max_batch, max_seconds)
    target = output or Path("engines") / f"cpu-{chosen}"
    require_new(target, force, Manifest.marks)
    started = time.perf_counter()
    with progress() as stage:
        manifest = build_cpu_set(load_chosen_checkpoint(checkpoint), target, request, force, stage)
    size = sum(info.bytes for info in manifest.files.values())
    worst = max(graph.export_error for graph in manifest.graphs.values())
    note(
        f"built in {time.perf_counter() - started:.0f} s: {megabytes(size)}, {chosen}, up to {max_batch} at a time, "
        f"{manifest.limits.capacity} positions; export differs from torch by {worst:.1e} at most"
    )
    out.print(str(target))
    note(f'next: trt-tts say "the engine is ready" --engine {_quoted(target)} -o ready.wav')


def _quoted(path: Path) -> str:
    return str(path) if re.fullmatch(r"[\w./\\:-]+", str(path)) else f'"{path}"'


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(build)
