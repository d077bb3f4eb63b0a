"""Which layers are pinned to a precision: a TOML file, written by hand or by a build.

[gpt]
"layers.0.*" = "fp16"
"layers.*.mlp.down_proj/MatMul" = "fp16"

Tables are graphs; keys are shell-style patterns over node names (`trt-tts inspect --nodes` lists the products, an
exported graph holds all); the last matching line wins.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from trt_tts.errors import UsageError

TYPES = ("fp32", "fp16", "int8")


@dataclass(frozen=True)
class PrecisionMap:
    """The rules of one graph, in the order of the file."""

    rules: tuple[tuple[str, str], ...] = ()

    def of(self, node: str) -> str | None:
        """The type a node is pinned to, None where no rule names it."""
        return next((kind for pattern, kind in reversed(self.rules) if fnmatchcase(node, pattern)), None)

    def unused(self, nodes: list[str]) -> list[str]:
        """Patterns that match none of `nodes`."""
        return [pattern for pattern, _ in self.rules if not any(fnmatchcase(node, pattern) for node in nodes)]


def load_precision_map(file: Path, graphs: tuple[str, ...]) -> dict[str, PrecisionMap]:
    """Graph -> rules.

    Raises:
        UsageError: the file cannot be read, or names an unknown graph or type.
    """
    try:
        data = tomllib.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read the precision map {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"the precision map {file} is not TOML in UTF-8: {error}") from error
    return {graph: PrecisionMap(_rules(file, graph, table, graphs)) for graph, table in data.items()}


def save_precision_map(file: Path, maps: dict[str, PrecisionMap]) -> None:
    """Write what `load_precision_map` reads."""
    lines = []
    for graph, rules in maps.items():
        # A JSON string is a TOML one.
        keys = ((json.dumps(pattern, ensure_ascii=False), kind) for pattern, kind in rules.rules)
        lines += [f"[{graph}]", *(f'{key} = "{kind}"' for key, kind in keys)]
    file.write_text("\n".join(lines) + "\n", "utf-8", newline="\n")


def _rules(file: Path, graph: str, table: Any, graphs: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    if graph not in graphs:
        raise UsageError(f"the precision map {file} names the graph {graph!r}; there are: {', '.join(graphs)}")
    if not isinstance(table, dict):
        raise UsageError(f'the precision map {file}: [{graph}] must hold lines such as "layers.0.*" = "fp16"')
    for pattern, kind in table.items():
        if kind not in TYPES:
            raise UsageError(f"the precision map {file}: {pattern!r} is {kind!r}; allowed: {', '.join(TYPES)}")
    return tuple(table.items())
