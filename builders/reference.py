"""What other graphs are held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .samples import Described


@dataclass(frozen=True)
class Reference:
    """A `gpt` graph and all it takes to speak with it."""

    voice: Described
    hashes: Mapping[str, str]
    """sha256 of the checkpoint's files."""
    tables: Path
    """Folder with tokenizer, voices and text embedding."""
    gpt: Path
    """With FP32 inputs and outputs, of either form."""
    codec: Path
    """The FP32 graph that makes sound of everybody's hidden states."""
    name: str = "fp32"
    """For people."""
    heads: Path | None = None
    """`gpt` graph with FP32 heads, which turn everybody's hidden states into codes; None: `gpt` has them."""
