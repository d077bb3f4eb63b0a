"""`trt-tts calibrate`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from trt_tts.cli.console import note, out, print_json, progress, table
from trt_tts.cli.toolchain import load_chosen_checkpoint, require_graph_tools
from trt_tts.errors import UsageError
from trt_tts.files import new_file, require_writable
from trt_tts.shell import command

_COLUMNS = ("linear", "smoothing", "largest input", "INT8 reaches", "beyond it", "result, dB above its error")
_DAMAGE = ("INT8 only in", "linears", "KL from FP32, nats", "top-1", "hidden states, dB")


def calibrate(
    dataset: Annotated[str, typer.Option(help="Folder or file of texts (.txt, .jsonl, .csv), or default.")] = "default",
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder.")] = None,
    method: Annotated[str, typer.Option(help="percentile (99.99), max or entropy.")] = "percentile",
    samples: Annotated[int, typer.Option(help="Sentences to speak, drawn from the dataset.")] = 64,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The calibration file.")] = Path("calibration.json"),
    smooth: Annotated[
        bool, typer.Option("--smooth/--no-smooth", help="Move outliers of the inputs into the weights (SmoothQuant).")
    ] = True,
    sensitivity: Annotated[
        bool, typer.Option("--sensitivity", help="Also measure INT8 one linear, layer and kind at a time. Slow.")
    ] = False,
    report: Annotated[Path | None, typer.Option(help="Write the table as Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure the activations of a checkpoint on texts and write the scales that `build --precision int8` uses.

    [bold]Examples[/bold]

      trt-tts calibrate --dataset corpus/

      trt-tts calibrate --dataset default --method entropy -o entropy.json --report entropy.md

      trt-tts calibrate --dataset sentences.txt --samples 128 --sensitivity
    """
    require_graph_tools()
    from trt_tts.calibration.dataset import load_dataset
    from trt_tts.calibration.run import CalibrationRequest, run_calibration

    request = CalibrationRequest(method, samples, seed, smooth, sensitivity)
    if report is not None and report.absolute() == output.absolute():
        raise UsageError(f"-o and --report are both {report}; name two files")
    for file in filter(None, (output, report)):
        require_writable(file)
    loaded = load_chosen_checkpoint(checkpoint)
    texts = load_dataset(dataset, loaded.path)
    note(f"dataset: {texts.source}, {len(texts.texts)} distinct texts")
    with progress() as stage:
        found = run_calibration(loaded, texts, request, stage)
    found.calibration.save(output)
    if report is not None:
        with new_file(report) as work:
            work.write_text(_markdown(found), "utf-8")
    if as_json:
        print_json(asdict(found))
    else:
        _print(f"Inputs of the linears, {method}", _COLUMNS, map(_cells, found.linears))
        if found.sensitivity:
            _print("Sensitivity, the worst first", _DAMAGE, map(_damage_cells, found.sensitivity))
    note(
        f"{found.spoken} sentences, {found.positions} positions; {found.skipped} texts that this voice cannot speak "
        f"were left out; written to {output}"
    )
    note(f"next: {command('trt-tts', 'build', '--precision', 'int8', '--calibration', output)}")


def _print(title: str, columns: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> None:
    rows = table(title, *columns)
    for row in cells:
        rows.add_row(*row)
    out.print(rows)


def _cells(item: Any) -> tuple[str, ...]:
    above = -10 * math.log10(max(item.error, 1e-12))
    smoothing = f"{item.strength:g}" if item.strength else "none"
    return (item.node, smoothing, f"{item.largest:.3g}", f"{item.threshold:.3g}", f"{item.clipped:.4%}", f"{above:.1f}")


def _damage_cells(item: Any) -> tuple[str, ...]:
    return (item.place, str(item.linears), f"{item.kl:.5f}", f"{item.top1:.1%}", f"{item.hidden_snr_db:.1f}")


def _markdown(found: Any) -> str:
    lines = [f"# Calibration: {found.calibration.title}, {found.spoken} sentences", ""]
    lines += _markdown_table(_COLUMNS, map(_cells, found.linears))
    if found.sensitivity:
        lines += ["", "## Sensitivity", "", *_markdown_table(_DAMAGE, map(_damage_cells, found.sensitivity))]
    return "\n".join(lines) + "\n"


def _markdown_table(columns: tuple[str, ...], cells: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *cells)]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)
