"""Symbolic dimensions: numbers, names ("B") and formulas over names ("512*T - 256"), as torch writes them to ONNX."""

from collections.abc import Iterable, Sequence
from functools import cache
from types import CodeType

Shape = tuple[int, ...]
Dim = int | str
Names = dict[str, int]
_FUNCTIONS = {"__builtins__": {}, "Min": min, "Max": max}


@cache
def _compiled(formula: str) -> CodeType:
    return compile(formula, "a dimension", "eval")


def evaluate(dims: Iterable[Dim], names: Names) -> Shape:
    """The sizes of `dims`; -1 for those that depend on a name which is not known yet."""
    return tuple(dim if isinstance(dim, int) else _evaluate(dim, names) for dim in dims)


def _evaluate(formula: str, names: Names) -> int:
    if formula in names:
        return names[formula]
    try:
        return int(eval(_compiled(formula), _FUNCTIONS, names))
    except (NameError, SyntaxError):  # ONNX allows any text as a name
        return -1


def learn(dims: Sequence[Dim], shape: Shape, names: Names) -> str | None:
    """Take an input's sizes into `names`; a sentence where it contradicts what another input said."""
    for dim, size in zip(dims, shape, strict=True):
        if isinstance(dim, str) and names.setdefault(dim, size) != size:
            return f"dimension {dim} is {names[dim]} in one input and {size} in another"
    return None
