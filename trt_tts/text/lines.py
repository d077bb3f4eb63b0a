"""Marks the pauses that a reader makes at line breaks: in lists, verse, headings and addresses, but not in prose that
was wrapped to a width."""

from __future__ import annotations

import re
import unicodedata

from trt_tts.text.language import HAN, main_language

_NARROWEST = 40
"""Columns; nobody wraps prose to fewer."""
_FEWEST = 3
"""Lines of a list or a verse; one break may be anybody's."""
_SHORT = 0.6
"""Share of the longest line; wrapped prose has no shorter lines but each paragraph's last."""
_NUMBER = re.compile(rf"[(（]?(\d{{1,2}})(?:[.．](?=[\s{HAN}])|[)）、])\s*(?=\S)")
_PAUSES, _STOPS = {"en": ",", "zh": "，"}, {"en": ".", "zh": "。"}
_CLOSING = "\"')）”’」』】》"


def mark_line_breaks(text: str) -> str:
    """`text` with a mark where a line without one ends on purpose, and the numbers of list items set off by a pause.

    A break is on purpose after a short line, where three lines or more are all short, and before a numbered item.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = _numbered(lines)
    widths = [len(line) + sum(unicodedata.east_asian_width(char) in "WF" for char in line) for line in lines]
    widest = max(widths, default=0)
    short = _SHORT * widest if widest >= _NARROWEST else widest if len(lines) >= _FEWEST else 0
    for index in range(len(lines) - 1):
        if index + 1 in numbered:
            lines[index] = _ended(lines[index], _STOPS)
        elif widths[index] <= short:
            lines[index] = _ended(lines[index], _PAUSES)
    for index in numbered:
        lines[index] = _NUMBER.sub(rf"\1{_PAUSES[main_language(lines[index])]} ", lines[index], count=1)
    return "\n".join(lines)


def _numbered(lines: list[str]) -> set[int]:
    """Indices of lines that begin with a list item's number: 1, or one more than the item before."""
    found, expected = set(), 1
    for index, line in enumerate(lines):
        number = _NUMBER.match(line)
        if number and int(number[1]) in (1, expected):
            found.add(index)
            expected = int(number[1]) + 1
    return found


def _ended(line: str, marks: dict[str, str]) -> str:
    """`line` with a mark at its end, where a word or a number stands there."""
    last = line.rstrip(_CLOSING)[-1:]
    return line + marks[main_language(line)] if last.isalnum() or (last and last in "%°") else line
