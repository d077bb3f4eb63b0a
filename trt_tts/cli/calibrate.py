"""`trt-tts calibrate`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from trt_tts.cli.console import note, out, print_json, progress, table
from trt_tts.cli.toolchain import load_chosen_checkpoint, require_graph_tools
from trt_tts.errors import UsageError
from trt_tts.shell import command

_COLUMNS = ("linear", "largest", "INT8 reaches", "beyond it", "error of the result")


def calibrate(
    dataset: Annotated[str, typer.Option(help="Folder or file of texts (.txt, .jsonl, .csv), or default.")] = "default",
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder.")] = None,
    method: Annotated[str, typer.Option(help="percentile (99.99), max or entropy.")] = "percentile",
    samples: Annotated[int, typer.Option(help="Sentences to speak, drawn from the dataset.")] = 64,
    seed: Annotated[int, typer.Option(help="Same seed, same result.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="The calibration file.")] = Path("calibration.json"),
    report: Annotated[Path | None, typer.Option(help="Write the table as Markdown.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Measure the activations of a checkpoint on texts and write the scales that `build --precision int8` uses.

    [bold]Examples[/bold]

      trt-tts calibrate --dataset corpus/

      trt-tts calibrate --dataset default --method entropy -o entropy.json --report entropy.md
    """
    require_graph_tools()
    from trt_tts.calibration.dataset import load_dataset
    from trt_tts.calibration.run import CalibrationRequest, run_calibration

    request = CalibrationRequest(method, samples, seed)
    for file in (output, report):
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise UsageError(f"cannot write {file}: it is a folder, or its folder does not exist. Choose another")
    loaded = load_chosen_checkpoint(checkpoint)
    texts = load_dataset(dataset, loaded.path)
    note(f"dataset: {texts.source}, {len(texts.texts)} distinct texts")
    with progress() as stage:
        found = run_calibration(loaded, texts, request, stage)
    found.calibration.save(output)
    if report is not None:
        report.write_text(_markdown(found), "utf-8")
    if as_json:
        print_json(asdict(found))
    else:
        rows = table(f"Inputs of the linears, {method}", *_COLUMNS)
        for item in found.linears:
            rows.add_row(*_cells(item))
        out.print(rows)
    note(
        f"{found.spoken} sentences, {found.positions} positions; {found.skipped} texts that this voice cannot speak "
        f"were left out; written to {output}"
    )
    note(f"next: {command('trt-tts', 'build', '--precision', 'int8', '--calibration', output)}")


def _cells(item: Any) -> tuple[str, ...]:
    return (item.node, f"{item.largest:.3g}", f"{item.threshold:.3g}", f"{item.clipped:.4%}", f"{item.error:.2%}")


def _markdown(found: Any) -> str:
    title = f"# Calibration: {found.calibration.method}, {found.spoken} sentences of {found.calibration.dataset}"
    rows = [_COLUMNS, ["---"] * len(_COLUMNS), *map(_cells, found.linears)]
    return "\n".join([title, "", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(calibrate)
