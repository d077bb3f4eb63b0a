"""`trt-tts export`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import megabytes, note, out, print_json, progress, table
from trt_tts.cli.toolchain import load_chosen_checkpoint, require_build_extra
from trt_tts.files import new_folder, require_new


def export(
    checkpoint: Annotated[Path | None, typer.Option(help="Checkpoint folder.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the ONNX files.")] = Path("onnx"),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing folder.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Export a checkpoint's graphs to ONNX and compare each with torch at several shapes.

    [bold]Examples[/bold]

      trt-tts export -o onnx/

      trt-tts export --checkpoint ChatTTS -o onnx/ --json
    """
    require_new(output, force, holds_graphs)
    require_build_extra()
    from trt_tts.builders.export import TOLERANCE, export_graph
    from trt_tts.builders.graphs.registry import GRAPHS

    loaded = load_chosen_checkpoint(checkpoint)
    with new_folder(output, force, holds_graphs) as folder, progress() as stage:
        reports = []
        for name, entry in GRAPHS.items():
            stage(f"exporting {name}")
            reports.append(export_graph(entry.make(loaded), folder))
    if as_json:
        print_json([asdict(report) for report in reports])
        return
    rows = table("ONNX Runtime against torch", "graph", "nodes", "size", "relative error", "allowed", "differing codes")
    for report in reports:
        rows.add_row(
            report.name,
            str(report.nodes),
            megabytes(report.bytes),
            f"{report.error:.1e}",
            f"{TOLERANCE:.0e}",
            str(report.mismatches),
        )
    out.print(rows)
    note(f"written to {output}")


def holds_graphs(folder: Path) -> bool:
    """Whether `folder` holds exported graphs and nothing else."""
    return all(file.suffix in (".onnx", ".weights") for file in folder.iterdir())


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(export)
