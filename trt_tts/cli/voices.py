"""`trt-tts voices`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import note, out, print_json, table
from trt_tts.manifest import VOICES, Manifest
from trt_tts.sets import choose_set
from trt_tts.voices import VoiceBook


def voices(
    engine: Annotated[Path | None, typer.Option("--engine", "-e", help="Engine-set folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print names and voice strings as JSON.")] = False,
) -> None:
    """List the voices of an engine set; the first is the default.

    [bold]Examples[/bold]

      trt-tts voices

      trt-tts voices --engine engines/cpu-int8 --json
    """
    path = choose_set(engine).path
    Manifest.load(path)
    book = VoiceBook.load(path / VOICES)
    strings = {name: voice.to_string() for name, voice in book.voices.items()}
    if as_json:
        print_json(strings)
        return
    rows = table(f"Voices of {path}", "name", "voice string")
    for name, text in strings.items():
        rows.add_row(name, f"{text[:24]}... ({len(text)} characters)")
    out.print(rows)
    if not strings:
        note("no named voices; without --voice, say uses " + ("random voice 0" if book.statistics else "none"))


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(voices)
