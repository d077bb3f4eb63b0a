"""How long work says what it is doing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str], None]
"""Called with a line before each stage. A line that ends in "3/7" is a step of the stage before it."""
