"""Commands that a person can paste, in a POSIX shell as well as on Windows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from os import PathLike


def command(*words: str | PathLike[str]) -> str:
    """The words with double quotes where one needs them."""
    return " ".join(_quoted(str(word)) for word in words)


def pip_install(packages: Iterable[str]) -> str:
    """The command that installs into the Python that is running."""
    return command(sys.executable, "-m", "pip", "install", *packages)


def _quoted(word: str) -> str:
    return word if re.fullmatch(r"[\w./\\:=+,-]+", word) else f'"{word}"'
