"""Folds the many ways to write a letter, digit or bracket into the plain one, and drops what cannot be seen."""

from __future__ import annotations

import re
import unicodedata

_CHINESE_MARKS = "！，？；：（）"
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code) not in _CHINESE_MARKS}
_BRACKETS_AND_QUOTES = str.maketrans("［］﹇﹈\u2018\u2019\u201b\u02bc\uff07", "[][]'''''")
_KEPT_NUMBERS = "〇²³"
"""The Chinese zero is a character like any other; squares and cubes have names."""
_SLASHES = str.maketrans("\u2044\u2215", "//")
_POWER = re.compile(r"(?<=[A-Za-z])[23]$")
_POWERS = {"2": "²", "3": "³"}
_WIDE_IN_NUMBER = {":": re.compile(r"(?<=\d)：(?=\d)"), ",": re.compile(r"(?<=\d)，(?=\d{3}(?!\d))")}
_BETWEEN_NUMBERS = re.compile(r"(?<=\d)\0+(?=\d)")
_LETTERS = {"I": 1, "V": 5, "X": 10, "L": 50}
_COUNTED = "World War|Chapter|Part|Book|Volume|Vol|Act|Scene|Section|Phase|Stage|Type|Article|Appendix"
_ROMAN = re.compile(
    rf"\b((?:{_COUNTED}|{_COUNTED.upper()})\.?\s+)"
    r"(?!(?<!War )I\s+[a-z])(?=[IVXL])((?:X?L|L?X{0,3})(?:IX|IV|V?I{0,3}))(?![\w'])"
)
"""A Roman number below 90 after a word that is counted so; "the Part I play" has none."""
_SPACES = re.compile(r"[\s\u2028\u2029]+")


def visible_characters(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without control and format characters, white space as single spaces; and what stood for nothing in it.

    That is lone surrogates, private and unassigned characters.
    """
    kept: list[str] = []
    meaningless: dict[str, None] = {}
    for char in _SPACES.sub(" ", text):
        category = unicodedata.category(char)
        if category in ("Cs", "Co", "Cn"):
            meaningless[char] = None
        elif category not in ("Cc", "Cf") and not "\ufe00" <= char <= "\ufe0f":  # nor what chooses an emoji's form
            kept.append(char)
    return "".join(kept), tuple(meaningless)


def fold_characters(text: str) -> str:
    """Full-width forms as plain ones, all digits as 0-9, circled, Roman and raised numbers and fractions as digits;
    Roman numbers in plain letters after "Chapter" and such words only."""
    text = text.translate(_FULL_WIDTH).translate(_BRACKETS_AND_QUOTES)
    text = "".join(char if char.isascii() else _plain_number(char) for char in text)
    text = _BETWEEN_NUMBERS.sub(" ", text).replace("\0", "")
    for plain, wide in _WIDE_IN_NUMBER.items():
        text = wide.sub(plain, text)
    text = unicodedata.normalize("NFC", text)
    return _ROMAN.sub(lambda found: found[1] + str(_roman(found[2])), text)


def _roman(letters: str) -> int:
    values = [_LETTERS[letter] for letter in letters]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))


def _plain_number(char: str) -> str:
    """A digit as 0-9; another number or unit between NULs, which keep numbers apart."""
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    if "\u3200" <= char <= "\u33ff":  # words in one character, of units and dates
        words = unicodedata.normalize("NFKC", char).translate(_SLASHES)
        return f"\0{_POWER.sub(lambda found: _POWERS[found.group()], words)}\0"
    if char in _KEPT_NUMBERS or unicodedata.category(char) not in ("No", "Nl"):
        return char
    value = unicodedata.numeric(char)
    plain = f"{value:.0f}" if value == int(value) else unicodedata.normalize("NFKC", char).translate(_SLASHES)
    return f"\0{plain}\0"
