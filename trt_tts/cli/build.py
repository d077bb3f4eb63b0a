"""`trt-tts build`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trt_tts.cli.console import megabytes, note, out, progress
from trt_tts.cli.quality_table import print_quality
from trt_tts.cli.toolchain import load_chosen_checkpoint, require_build_extra, require_graph_tools
from trt_tts.cuda.choice import make_driver
from trt_tts.engine import MOST_DEVICES
from trt_tts.errors import QualityError
from trt_tts.files import require_new
from trt_tts.manifest import Manifest
from trt_tts.options import require_whole
from trt_tts.shell import command

DEFAULT_PRECISION = {"cpu": "int8", "tensorrt": "fp16"}
"""What auto means where nothing can be timed."""


@dataclass(frozen=True)
class _Options:
    """What both backends need."""

    checkpoint: Path | None
    precision: str
    max_batch: int
    max_seconds: float | None
    target: Path
    force: bool
    gate: bool


def build(
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder.")] = None,
    backend: Annotated[str, typer.Option(help="auto, cpu or tensorrt.")] = "auto",
    precision: Annotated[
        str, typer.Option(help="auto, fp32 or int8; for the CPU also int4, for GPUs also fp16.")
    ] = "auto",
    card: Annotated[str | None, typer.Option(help="Card to build for: a preset, or auto for the GPU here.")] = None,
    max_batch: Annotated[int, typer.Option(help="Sequences generated at a time.")] = 1,
    max_seconds: Annotated[
        float | None, typer.Option(help="Longest speech of one segment, in seconds; without it 2048 positions.")
    ] = None,
    calibration: Annotated[Path | None, typer.Option(help="For INT8 on GPUs; without it ./calibration.json.")] = None,
    precision_map: Annotated[
        Path | None, typer.Option(help="TOML file that pins layers of a GPU set to fp32, fp16 or int8.")
    ] = None,
    tensorrt: Annotated[str | None, typer.Option(help="Force tensorrt or tensorrt_rtx.")] = None,
    device: Annotated[int, typer.Option(help="Index of the GPU.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The set's folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
    gate: Annotated[
        bool, typer.Option("--gate/--no-gate", help="Compare a quantized set's speech with FP32; fail if too far.")
    ] = True,
) -> None:
    """Build an engine set from a checkpoint.

    --backend auto takes the CPU where there is no NVIDIA GPU, unless an option asks for one: --precision fp16, --card,
    --calibration or --tensorrt. With tensorrt_rtx a set for a card is built without the card.

    Without --checkpoint: $TRT_TTS_CHECKPOINT, then a fetched one, then the demo voice.
    Without -o: ./engines/<card or cpu>-<precision>.

    [bold]Examples[/bold]

      trt-tts build

      trt-tts build --precision fp16 --max-batch 4

      trt-tts build --card gtx1650 --precision int8 --calibration calibration.json

      trt-tts build --checkpoint ChatTTS --backend cpu --max-seconds 30
    """
    from trt_tts.builders.backend_choice import BackendRequest, choose_backend
    from trt_tts.builders.cards import choose_card
    from trt_tts.target import this_machine

    require_whole("device", device, 0, MOST_DEVICES)
    request = BackendRequest(
        backend, precision, card, tensorrt, calibration is not None, precision_map is not None, device
    )
    machine, chosen_card = this_machine(device), choose_card(card or "auto", device)
    choice = choose_backend(request, machine, chosen_card.card)
    if precision == "auto" and (choice.backend == "cpu" or choice.ahead):
        precision = DEFAULT_PRECISION[choice.backend]
    place = "cpu" if choice.backend == "cpu" else chosen_card.card.key
    target = output or Path("engines") / f"{place}-{precision}"
    note(f"backend: {choice.backend} ({choice.reason})")
    options = _Options(checkpoint, precision, max_batch, max_seconds, target, force, gate)
    try:
        if choice.backend == "cpu":
            _build_for_cpu(options)
        else:
            note(f"card: {chosen_card.card.name} ({chosen_card.reason})")
            _build_for_gpu(options, chosen_card.card, choice, device, calibration, precision_map)
    except QualityError as error:
        print_quality(error.found, error.precision)
        raise


def _build_for_cpu(options: _Options) -> None:
    require_build_extra()
    from trt_tts.builders.cpu_set import CpuBuild, build_cpu_set

    request = CpuBuild(options.precision, options.max_batch, options.max_seconds, options.gate)
    require_new(options.target, options.force, Manifest.marks)
    started = time.perf_counter()
    checkpoint = load_chosen_checkpoint(options.checkpoint)
    with progress() as stage:
        manifest = build_cpu_set(checkpoint, options.target, request, options.force, stage)
    _report(manifest, options.target, started)
    say = command("trt-tts", "say", "the engine is ready", "--engine", options.target, "-o", "ready.wav")
    note(f"next: {say}")


def _build_for_gpu(
    options: _Options, card: Any, choice: Any, device: int, calibration: Path | None, precision_map: Path | None
) -> None:
    require_graph_tools()
    if not choice.ahead:
        make_driver()  # the self-test needs it: better missed now than after the build
    from trt_tts.builders.auto_precision import build_fastest
    from trt_tts.builders.calibration_data import DEFAULT_FILE, load_calibration
    from trt_tts.builders.gpu_set import GpuBuild, build_gpu_set
    from trt_tts.builders.graphs.registry import GRAPHS
    from trt_tts.builders.precision_map import load_precision_map
    from trt_tts.flavour import load_flavour

    rules = load_precision_map(precision_map, tuple(GRAPHS)) if precision_map else {}
    require_new(options.target, options.force, Manifest.marks)
    checkpoint = load_chosen_checkpoint(options.checkpoint)
    scales = None
    automatic = options.precision == "auto"
    if options.precision == "int8" or calibration is not None or (automatic and DEFAULT_FILE.is_file()):
        scales = load_calibration(calibration or DEFAULT_FILE, checkpoint)
    request = GpuBuild(
        precision="fp16" if automatic else options.precision,
        card=card,
        flavour=load_flavour(choice.flavour),
        ahead=choice.ahead,
        max_batch=options.max_batch,
        max_seconds=options.max_seconds,
        device=device,
        rules=rules,
        calibration=scales,
        gate=options.gate,
    )
    started = time.perf_counter()
    with progress() as stage:
        make = build_fastest if automatic else build_gpu_set
        manifest = make(checkpoint, options.target, request, options.force, stage)
    _report(manifest, options.target, started)
    _say_where_it_runs(manifest, options.target)


def _report(manifest: Manifest, target: Path, started: float) -> None:
    size = sum(info.bytes for info in manifest.files.values())
    worst = max(graph.export_error for graph in manifest.graphs.values())
    note(
        f"built in {time.perf_counter() - started:.0f} s: {megabytes(size)}, {manifest.precision}, up to "
        f"{manifest.limits.max_batch} at a time, {manifest.limits.capacity} positions; export differs from torch by "
        f"{worst:.1e} at most"
    )
    if manifest.quality is not None:
        words = manifest.quality.words
        heard = f"WER {words.rate:.1%} (FP32 {words.reference:.1%})" if words else "WER not measured"
        note(
            f"speech compared with FP32: top-1 {manifest.quality.top1:.1%}, KL {manifest.quality.kl:.4f}, {heard}; all "
            f"measures: {command('trt-tts', 'inspect', target)}"
        )
    out.print(str(target))


def _say_where_it_runs(manifest: Manifest, target: Path) -> None:
    runs_on, verification = manifest.target, manifest.verification
    if verification is not None and verification.verified:
        note(f"tested: {verification.reason}; look at it with: {command('trt-tts', 'inspect', target)}")
        note(f"speak: {command('trt-tts', 'say', 'the engine is ready', '--engine', target)}")
        return
    note(
        f"it cannot run here: {verification.reason if verification else 'it was not tested'}. It runs with "
        f"{runs_on.runtime} on a GPU of compute capability {runs_on.compute_capability} under {runs_on.system} only; "
        f"copy the folder there and test it with: {command('trt-tts', 'verify', target)}"
    )
    note("a set that speaks here: trt-tts build --backend cpu")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(build)
