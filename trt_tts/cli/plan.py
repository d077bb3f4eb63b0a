"""`trt-tts plan`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from trt_tts.checkpoints import ENVIRONMENT, choose_checkpoint
from trt_tts.cli.console import megabytes, note, out, print_json, table
from trt_tts.demo import demo_checkpoint
from trt_tts.errors import UsageError
from trt_tts.gpu.memory import device_total, engine_parts
from trt_tts.manifest import Manifest
from trt_tts.model_config import STEPS_PER_SECOND, ModelConfig


def plan(
    card: Annotated[str, typer.Option(help="Card preset, or auto for the GPU here.")] = "auto",
    precision: Annotated[str, typer.Option(help="fp32, fp16 or int8.")] = "fp16",
    max_batch: Annotated[int, typer.Option(help="Sequences generated at a time.")] = 1,
    max_seconds: Annotated[
        float | None, typer.Option(help="Longest speech of one segment, in seconds; without it 2048 positions.")
    ] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder whose sizes to plan for.")] = None,
    engine: Annotated[
        Path | None, typer.Option("--engine", "-e", help="A built set: what it takes, by its builder's report.")
    ] = None,
    cards: Annotated[bool, typer.Option("--cards", help="List the card presets and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Predict the memory of an engine set on a card, before anything is built; exit code 1 when it does not fit.

    Without --checkpoint: $TRT_TTS_CHECKPOINT, then a fetched one, then the published ChatTTS sizes.

    [bold]Examples[/bold]

      trt-tts plan --card gtx1650 --precision fp16 --max-batch 4

      trt-tts plan --engine engines/gtx1650-fp16

      trt-tts plan --cards
    """
    from trt_tts.builders.cards import choose_card, load_cards
    from trt_tts.builders.planner import as_json as plan_as_json
    from trt_tts.builders.planner import plan_memory, require_fit
    from trt_tts.limits import require_limits

    if cards:
        _print_cards(list(load_cards().values()), as_json)
        return
    if engine is not None:
        _plan_of_set(engine, as_json)
        return
    require_limits(max_batch, max_seconds)
    choice = choose_card(card)
    config, sizes = _sizes(checkpoint)
    note(f"card: {choice.card.name} ({choice.reason})")
    note(f"sizes: {sizes}")
    found = plan_memory(config, choice.card, precision, max_batch, max_seconds)
    if as_json:
        print_json(plan_as_json(found))
    else:
        _print_plan(found)
        if precision == "fp32" and choice.card.compute_capability == "7.5":
            note("fp32 for compute capability 7.5 is built by tensorrt on the card only, not by tensorrt_rtx")
        note("fitted to the figures of TensorRT-RTX's builder; unverified for tensorrt until a set is built on a card")
    require_fit(config, found)


def _plan_of_set(folder: Path, as_json: bool) -> None:
    """What the engine will hold once it is loaded, to the byte where the builder reports what TensorRT takes."""
    manifest = Manifest.load(folder)
    if manifest.backend != "tensorrt":
        raise UsageError(f"{folder} was built for the backend {manifest.backend!r}; only sets for GPUs have a plan")
    parts, limits = engine_parts(manifest.graphs, manifest.config.gpt, manifest.limits), manifest.limits
    if as_json:
        print_json({"parts": [asdict(part) for part in parts], "device": device_total(parts)})
        return
    rows = table(
        f"{folder}: {manifest.precision}, batch {limits.max_batch}, {limits.capacity} positions",
        "part",
        "bytes",
        "where",
    )
    for part in parts:
        rows.add_row(part.name, megabytes(part.bytes), part.where)
    rows.add_row("engine on the GPU", megabytes(device_total(parts)), "device", style="bold")
    out.print(rows)
    note("the CUDA context, and codec_vq and text_head at their first use, come on top")


def _sizes(named: Path | None) -> tuple[ModelConfig, str]:
    from trt_tts.builders.checkpoint import load_config

    choice = choose_checkpoint(named)
    if named is None and choice.path == demo_checkpoint():
        return ModelConfig(), f"the published ChatTTS sizes (name another with --checkpoint or {ENVIRONMENT})"
    return load_config(choice.path), f"{choice.path} ({choice.reason})"


def _print_plan(found: Any) -> None:
    limits = found.limits
    title = f"{found.precision}, batch {limits.max_batch}, {limits.capacity} positions on {found.card.name}, predicted"
    rows = table(title, "part", "device memory", "")
    for part in found.parts:
        rows.add_row(part.name, megabytes(part.bytes), "" if part.resident else "at first use, not in the total")
    rows.add_row("total", megabytes(found.total), f"of {megabytes(found.card.memory)}", style="bold")
    rows.add_row("engine alone", megabytes(found.engine), "without desktop, context and reserve")
    out.print(rows)
    bounds = table(
        f"Bound by {found.card.bandwidth_gbs:g} GB/s: no step can be faster; not a measurement",
        "rows", "positions", "bytes per step", "ms per step", "steps/s per row", "x real time",
    )  # fmt: skip
    for bound in found.bounds:
        bounds.add_row(
            str(bound.rows),
            str(bound.span),
            megabytes(bound.bytes),
            f"{bound.milliseconds:.2f}",
            f"{bound.steps_per_second:.0f}",
            f"{bound.steps_per_second / STEPS_PER_SECOND:.1f}",
        )
    out.print(bounds)


def _print_cards(cards: list[Any], as_json: bool) -> None:
    if as_json:
        print_json([asdict(card) for card in cards])
        return
    rows = table("Card presets", "--card", "name", "memory", "left for engines", "GB/s", "compute", "tensor cores")
    for card in cards:
        rows.add_row(
            card.key,
            card.name,
            megabytes(card.memory),
            megabytes(card.budget),
            f"{card.bandwidth_gbs:g}",
            card.compute_capability,
            "yes" if card.tensor_cores else "no",
        )
    out.print(rows)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(plan)
