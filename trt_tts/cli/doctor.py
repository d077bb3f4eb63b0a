"""`trt-tts doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from trt_tts.cli.console import out, print_json, table
from trt_tts.doctor import examine
from trt_tts.version import __version__

_STYLES = {"ok": "green", "missing": "yellow", "problem": "bold red"}


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False) -> None:
    """Say what this machine has and lacks, and how to fix it; exit code 1 when something essential is wrong.

    [bold]Example[/bold]

      trt-tts doctor
    """
    findings = list(examine())
    if as_json:
        print_json([asdict(finding) for finding in findings])
    else:
        rows = table(f"trt-tts {__version__}", "part", "status", "found", "how to fix")
        for item in findings:
            rows.add_row(item.name, Text(item.status, _STYLES[item.status]), item.detail, item.fix)
        out.print(rows)
    if any(item.status == "problem" for item in findings):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)
