"""Makes a user's text safe for the prompt and says what it changed."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from trt_tts.errors import TextError
from trt_tts.text.prompt import CONTROL_TAGS
from trt_tts.text.tokenizer import Tokenizer

_BRACKETED = re.compile(r"(\[[^\[\]]*\])")
_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F) if chr(code - 0xFEE0).isalnum()}
_BRACKETS_AND_QUOTES = str.maketrans("［］﹇﹈\u2018\u2019\u201b\u02bc\uff07", "[][]'''''")


LONGEST_SHOWN = 40


@dataclass(frozen=True)
class CleanText:
    """Text the tokenizer knows whole, and what was left out of it."""

    text: str
    warnings: tuple[str, ...]


def clean_text(text: str, tokenizer: Tokenizer, normalize: bool = True) -> CleanText:
    """Remove prompt tokens always; with `normalize` also fold widths, unknown brackets, symbols and white space.

    Raises:
        TextError: not a string, nothing left to speak, or letters or digits the tokenizer does not know.
    """
    if not isinstance(text, str):
        raise TextError(f"the text is a {type(text).__name__}; expected a string")
    reserved = tokenizer.specials() - set(CONTROL_TAGS)
    warnings: dict[str, None] = {}
    text = _without_unwritable(text, warnings)
    if normalize:
        text = unicodedata.normalize("NFC", text.translate(_FULL_WIDTH).translate(_BRACKETS_AND_QUOTES))
        text = _without_unknown_brackets(text, reserved, warnings)
        parts = (_without_unknown_symbols(part, tokenizer, warnings) for part in _BRACKETED.split(text))
        text = " ".join("".join(parts).split())
    text = _without_reserved(text, reserved, warnings)
    _require_speakable(text, tokenizer)
    return CleanText(text, tuple(warnings))


def _without_unwritable(text: str, warnings: dict[str, None]) -> str:
    """Drop control and format characters, and with a warning what has no meaning; white space becomes one space."""
    kept = []
    for char in re.sub(r"[\s\u2028\u2029]+", " ", text):
        category = unicodedata.category(char)
        if category in ("Cs", "Co", "Cn"):
            warnings[f"left out {char!a}: it stands for no character"] = None
        elif category not in ("Cc", "Cf"):
            kept.append(char)
    return "".join(kept)


def _without_unknown_brackets(text: str, reserved: set[str], warnings: dict[str, None]) -> str:
    """Bracketed parts that are no tags become plain words, from the innermost out."""
    before = None
    while before != text:
        before, text = text, "".join(_plain_bracket(part, reserved, warnings) for part in _BRACKETED.split(text))
    return text


def _plain_bracket(part: str, reserved: set[str], warnings: dict[str, None]) -> str:
    if not _BRACKETED.fullmatch(part) or part in CONTROL_TAGS:
        return part
    if part in reserved:
        warnings[_reserved_warning(part)] = None
        return " "
    warnings[f"{part} is no control tag; spoken as plain text"] = None
    return f" {part[1:-1]} "


def _without_unknown_symbols(part: str, tokenizer: Tokenizer, warnings: dict[str, None]) -> str:
    """Fold characters the tokenizer lacks to their plain form, or drop them where nobody would speak them.

    What a reader would speak and no token stands for is left in: it ends as an error, never in silence.
    """
    if _BRACKETED.fullmatch(part):
        return part
    known: dict[str, str] = {}
    for char in dict.fromkeys(part):
        known[char] = char
        if char.isspace() or not tokenizer.unknown_words(char):
            continue
        plain = unicodedata.normalize("NFKC", char)
        if plain != char and not tokenizer.unknown_words(plain):
            known[char] = plain
        elif not any(c.isalnum() for c in plain):
            warnings[f"left out {char!r}: this voice does not know it"] = None
            known[char] = " "
    return "".join(known[char] for char in part)


def _reserved_warning(token: str) -> str:
    return f"removed {token}: it belongs to the model's prompt"


def _without_reserved(text: str, reserved: set[str], warnings: dict[str, None]) -> str:
    """Remove the tokens only the program may use; again until removing one uncovers no other."""
    found = True
    while found:
        found = False
        for token in sorted(reserved):
            if token in text:
                found = True
                warnings[_reserved_warning(token)] = None
                text = " ".join(text.replace(token, " ").split())
    return text


def _require_speakable(text: str, tokenizer: Tokenizer) -> None:
    unknown = tokenizer.unknown_words(text)
    if unknown:
        shown = ", ".join(repr(part[:LONGEST_SHOWN]) for part in unknown[:5]) + (" ..." if len(unknown) > 5 else "")
        raise TextError(
            f"this voice cannot speak {shown}: it knows no token for it. Use text in the voice's language, "
            f"numbers as words where it knows no digits, or an engine set built from another checkpoint"
        )
    spoken = _BRACKETED.sub("", text)
    if not any(c.isalnum() for c in spoken):
        raise TextError(f"there is nothing to speak in {text!r}: it holds no letters or digits")
