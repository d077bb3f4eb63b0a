"""Which language each stretch of a text is read in."""

from __future__ import annotations

import re
from collections.abc import Iterator

HAN = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af"
"""Chinese characters, for use inside a regular expression's brackets."""
_CHINESE = re.compile(f"[{HAN}]")
_BETWEEN_CHINESE = re.compile(rf"[^{HAN}，。！？；：、（）《》「」『』【】“”…]+")
_WORD = re.compile(r"[^\W\d_²³]{2,}")
_TOKEN = re.compile(r"\S+")
_LEADING_NUMBER = re.compile(r"\d[\d.,:/%]*\s*$")


def main_language(text: str) -> str:
    """ "zh" for a text that holds a Chinese character, else "en"."""
    return "zh" if _CHINESE.search(text) else "en"


def language_runs(text: str, language: str) -> Iterator[tuple[str, str]]:
    """Cut a text of `language` into (part, language): inside Chinese, two words of another script are English.

    A single word, "GPT-4o" or "5 kg", is read as Chinese speakers read it, and so is a number that a Chinese character
    follows. The parts joined are the text.
    """
    if language != "zh":
        yield text, language
        return
    done = 0
    for stretch in _BETWEEN_CHINESE.finditer(text):
        first, last = _english(stretch.group(), to_end=not _CHINESE.match(text, stretch.end()))
        if first < last:
            yield text[done : stretch.start() + first], "zh"
            yield stretch.group()[first:last], "en"
            done = stretch.start() + last
    yield text[done:], "zh"


def _english(stretch: str, to_end: bool) -> tuple[int, int]:
    """Where the English part of a stretch without Chinese begins and ends; (0, 0) where it has none."""
    words = [token for token in _TOKEN.finditer(stretch) if _WORD.search(token.group())]
    if len(words) < 2:
        return 0, 0
    first = next(place for place, char in enumerate(stretch) if char.isalpha())
    number = _LEADING_NUMBER.search(stretch[:first])
    return number.start() if number else first, len(stretch) if to_end else words[-1].end()
