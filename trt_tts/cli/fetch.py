"""`trt-tts fetch`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trt_tts.checkpoints import fetched_checkpoint
from trt_tts.cli.console import note, out


def fetch(
    folder: Annotated[
        Path | None, typer.Argument(help="Where to; without it the place where other commands look.")
    ] = None,
) -> None:
    """Download the published ChatTTS checkpoint (about 1.2 GB; weights CC BY-NC 4.0) and verify it.

    An interrupted download resumes. This is the only command that uses the network.

    [bold]Examples[/bold]

      trt-tts fetch

      trt-tts fetch ChatTTS
    """
    from trt_tts.builders.fetch import fetch_checkpoint

    target = folder or fetched_checkpoint()
    note(f"downloading to {target}")
    out.print(str(fetch_checkpoint(target)))
    note(f"next: trt-tts build --checkpoint {target}" if folder else "next: trt-tts build")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(fetch)
