"""What all commands share on the terminal: results go to stdout, everything else to stderr."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

# No markup: paths and texts may hold square brackets.
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)
# Into a file or pipe tables are wide, so that hashes and paths stay in one piece.
_width = None if sys.stdout is None or sys.stdout.isatty() or "COLUMNS" in os.environ else 220
out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False, width=_width)


_STEP = re.compile(r" (\d+)/(\d+)$")


def use_replacement_characters() -> None:
    """Chinese text must survive a Windows console or a C locale: never fail to print, replace at worst."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def note(text: str) -> None:
    """A line for the person at the terminal."""
    err.print(text)


def fail(text: str, code: int) -> NoReturn:
    """Print an error and leave."""
    err.print("error:", style="bold red", end=" ")
    err.print(text)
    sys.exit(code)


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=_ascii_only(sys.stdout), default=str) + "\n")


def _ascii_only(stream: TextIO) -> bool:
    return "utf" not in (stream.encoding or "").lower()


def table(title: str, *columns: str) -> Table:
    """An empty table in the house style."""
    result = Table(title=title, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        result.add_column(column, overflow="fold")
    return result


def megabytes(count: int) -> str:
    """Bytes as MB = 10^6."""
    return f"{count / 1e6:.1f} MB"


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current stage: a bar on a terminal, a line per stage elsewhere.

    A stage that ends in "3/7" moves the bar; such steps get no line of their own.
    """
    if not err.is_terminal:
        yield lambda stage: None if _STEP.search(stage) else note(stage)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task("", total=None)

        def show(stage: str) -> None:
            step = _STEP.search(stage)
            if step:
                bar.update(task, completed=int(step[1]), total=int(step[2]))
            else:
                bar.update(task, description=stage, completed=0, total=None)

        yield show
