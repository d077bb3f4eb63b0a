"""Same-sounding characters for Chinese characters that the tokenizer lacks."""

from __future__ import annotations

from functools import cache

from trt_tts.text.tokenizer import Tokenizer

_COMMON_BELOW = 0xD8
"""First byte of GB 2312 from which the less common characters begin."""


def homophone(char: str, tokenizer: Tokenizer) -> str | None:
    """A character of the same syllable and tone that has a token; of several the most common. None where none has."""
    return _characters_by_reading(tokenizer.characters()).get(_reading(char) or "")


def _reading(char: str) -> str | None:
    """Pinyin with the tone as a number, as the character is read most often."""
    from pypinyin import Style, lazy_pinyin

    found = lazy_pinyin(char, style=Style.TONE3, neutral_tone_with_five=True, errors="ignore")
    return found[0] if found else None


@cache
def _characters_by_reading(known: frozenset[str]) -> dict[str, str]:
    readings: dict[str, str] = {}
    for char in sorted(known, key=_rareness):
        reading = _reading(char)
        if reading is not None:
            readings.setdefault(reading, char)
    return readings


def _rareness(char: str) -> tuple[bool, int, str]:
    """Common characters before others, of one reading before those of several."""
    from pypinyin import pinyin

    code = char.encode("gb2312", "ignore")
    common = len(code) == 2 and code[0] < _COMMON_BELOW
    return not common, len(pinyin(char, heteronym=True)[0]), char
