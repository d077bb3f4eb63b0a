"""Cuts a cleaned text into segments that are spoken one at a time: at sentences, else clauses, else words.

Never inside a control tag, and inside a number only where the number alone is too long. An abbreviation's dot ends no
sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

PARAGRAPH_PAUSE = 0.6
"""Seconds of silence between paragraphs."""
SENTENCE_PAUSE = 0.3
"""After a sentence that is followed by another one."""
CLAUSE_PAUSE = 0.12
"""After a clause that had to become a segment of its own."""
FEWEST_LETTERS = 4
"""A sentence with fewer, a Chinese character counting twice, is spoken together with the next one: alone it would be
cut off or babble."""
_CLOSING = "\"')]}”’」』）】》"
_SENTENCE_MARKS, _CLAUSE_MARKS = "。！？…；.!?;", "，、：—,:"
_CLOSERS = f"[{re.escape(_CLOSING)}]*"
_SENTENCE = re.compile(rf"(?:[。！？…；]+|[.!?;]+(?={_CLOSERS}(?:\s|$))){_CLOSERS}")
_CLAUSE = re.compile(rf"(?:[，、：—]+|[,:]+(?={_CLOSERS}\s)){_CLOSERS}|\[(?:uv_break|v_break|lbreak|llbreak)\]")
_CHINESE = re.compile(r"[\u3400-\u9fff]")
_WORD = re.compile(r"\s+|(?<=[\u3400-\u9fff])(?=[\u3400-\u9fff])|(?<=\])(?=\S)|(?<=\S)(?=\[)")
_CHARACTER = re.compile(r"(?<=.)(?=.)", re.DOTALL)
_TAG = re.compile(r"\[[^\[\]]*\]")
_KEPT = re.compile(rf"{_TAG.pattern}|\d+(?:[.,:/\-]\d+)*")
"""Tags and numbers."""
_ABBREVIATION = re.compile(
    r"(?:^|[^\w.])(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|vol|approx|dept|inc|ltd|cf|(?:[a-z]\.)*[a-z])\.$",
    re.IGNORECASE,
)
"""What ends in a dot that is no full stop; single letters are initials."""


_BLANK_LINES = re.compile(r"(?:\r\n?|\n|\u2028|\x85)[^\S\n\r]*(?:\r\n?|\n|\u2028|\x85)\s*|\u2029\s*")


@dataclass(frozen=True)
class Segment:
    """A part of a text."""

    text: str
    pause: float
    """Seconds of silence after it."""


def split_paragraphs(text: str) -> list[str]:
    """Parts between blank lines that hold a letter or digit; the text itself where none does."""
    parts = [part for part in _BLANK_LINES.split(text) if any(map(str.isalnum, part))]
    return parts or [text]


def split_text(text: str, size: Callable[[str], int], most: int) -> tuple[Segment, ...]:
    """Cut `text`, so that `size` of no part is more than `most`, unless a single tag or character is.

    The parts stand in the order of the text, and only white space is between them. What holds no letter or digit goes
    with its neighbour, whatever the size: alone it would be spoken as noise.
    """
    parts = _with_letters(text, [part for sentence in _sentences(text) for part in _fit(sentence, size, most)])
    pauses = [_pause(part) for part in parts]
    if pauses:
        pauses[-1] = 0.0
    return tuple(Segment(part, pause) for part, pause in zip(parts, pauses, strict=True))


def _with_letters(text: str, parts: list[str]) -> list[str]:
    """`parts`, in which those without letters are joined to the one before, or at the start to the next."""
    spans: list[tuple[int, int]] = []
    last = 0
    for part in parts:
        first = text.index(part, last)
        last = first + len(part)
        if spans and not (_letters(part) and _letters(text[slice(*spans[-1])])):
            spans[-1] = spans[-1][0], last
        else:
            spans.append((first, last))
    return [text[first:last] for first, last in spans]


def _sentences(text: str) -> Iterator[str]:
    """Sentences, short ones together with the next."""
    waiting = 0
    for end in (*_cuts(text, _SENTENCE), len(text)):
        part = text[waiting:end]
        if end < len(text) and _letters(part) < FEWEST_LETTERS:
            continue
        if part.strip():
            yield part.strip()
        waiting = end


def _fit(text: str, size: Callable[[str], int], most: int) -> list[str]:
    """`text` in as few parts as the bound allows, cut at the weightiest places that will do."""
    pieces = [text]
    for places in (_CLAUSE, _WORD, _CHARACTER):
        if all(size(piece) <= most for piece in pieces):
            break
        pieces = [
            part for piece in pieces for part in (_packed(piece, places, size, most) if size(piece) > most else [piece])
        ]
    return pieces


def _packed(text: str, places: re.Pattern[str], size: Callable[[str], int], most: int) -> list[str]:
    """`text` cut at some of the places, each part as long as the bound allows."""
    parts, first, last = [], 0, 0
    for end in (*_cuts(text, places), len(text)):
        if last > first and size(text[first:end].strip()) > most:
            parts.append(text[first:last].strip())
            first = last
        last = end
    parts.append(text[first:].strip())
    return [part for part in parts if part]


def _cuts(text: str, places: re.Pattern[str]) -> list[int]:
    """Where `text` may be cut: after each match that stands in no tag, no number and no abbreviation."""
    kept = _TAG if places is _CHARACTER else _KEPT
    inside = {place for match in kept.finditer(text) for place in range(match.start() + 1, match.end())}
    cuts = (match.end() for match in places.finditer(text))
    return [cut for cut in cuts if cut not in inside and not (places is _SENTENCE and _is_abbreviation(text[:cut]))]


def _is_abbreviation(before: str) -> bool:
    return _ABBREVIATION.search(before[-16:].rstrip()) is not None


def _letters(text: str) -> int:
    return sum(1 + bool(_CHINESE.match(char)) for char in _TAG.sub("", text) if char.isalnum())


def _pause(text: str) -> float:
    last = _TAG.sub("", text).rstrip(f"{_CLOSING} ")[-1:]
    if last and last in _SENTENCE_MARKS:
        return SENTENCE_PAUSE
    return CLAUSE_PAUSE if last and last in _CLAUSE_MARKS else 0.0
