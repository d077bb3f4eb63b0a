"""Every fault that people reported of programs like this one is held by a test that carries its number."""

import ast
import re
from pathlib import Path

CASES = {
    "T1": "digits vanish", "T3": "full-width letters and digits are not spoken", "T4": "question marks vanish",
    "T5": "a mark makes a tag be read aloud", "T6": "more than nine tags fail", "T8": "prompt tokens in the text",
    "T9": "unknown tags", "T10": "apostrophes", "T12": "separators glue words", "T13": "long segments drop words",
    "T14": "mixed text, rare characters", "T15": "odd characters", "T16": "encodings",
    "G4": "an early end yields nothing", "G5": "very short texts", "G6": "the step limit is hit silently",
    "G9": "a seed is another voice elsewhere", "G11": "the voice drifts", "G12": "wrong voice strings",
    "G13": "a release of torch breaks it", "G14": "NaN in the logits", "G15": "sampling options at their ends",
    "G16": "refining adds words", "G17": "concurrent calls mix", "G18": "cancelling one stream cancels another",
    "A1": "clicks at seams", "A3": "silent, empty or NaN audio", "A4": "scaled twice", "A5": "headers inside chunks",
    "A6": "near-zero samples are deleted", "A7": "a late first sound", "A8": "edges of short clips", "A10": "wraps",
    "E1": "an FP16 flag is ignored", "E2": "binding indices", "E4": "operators that do not parse",
    "E6": "impossible profiles", "E8": "a refused shape goes unseen", "E9": "FP16 overflow in norms",
    "E10": "an engine that returns NaN ships", "E11": "lack of memory looks like something else",
    "E12": "harmless warnings look fatal", "E13": "FP16 slower than FP32", "E15": "no INT8 layer in an INT8 engine",
    "E16": "quantized weights fold back", "E17": "weights looked up in the current folder", "E18": "odd paths",
    "R2": "another backend without a reason", "R3": "memory grows", "R4": "more threads than allowed",
    "R5": "damaged files", "R6": "the old checkpoint layout", "R7": "a slow first call",
}  # fmt: skip
_NAMED = re.compile(r"test_([tgaer]\d+)_")


def ids_of(function):
    """By its name, and by its marks `case`."""
    named = _NAMED.match(function.name)
    if named:
        yield named[1].upper()
    for item in function.decorator_list:
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr == "case":
            yield item.args[0].value


def test_every_case_is_held_by_a_test():
    files = Path(__file__).parent.parent.rglob("test_*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    tests = [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")]
    assert {found for test in tests for found in ids_of(test)} == set(CASES)
