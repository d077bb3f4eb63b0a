"""Makes a user's text safe for the prompt and speakable for the voice, and says what it changed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field

from trt_tts.errors import TextError
from trt_tts.text.characters import fold_characters, visible_characters
from trt_tts.text.homophones import homophone
from trt_tts.text.language import main_language
from trt_tts.text.lines import mark_line_breaks
from trt_tts.text.prompt import CONTROL_TAGS
from trt_tts.text.spoken import spell_out, without_contractions
from trt_tts.text.symbols import MARKS, SILENT, as_pauses, tidy
from trt_tts.text.tokenizer import Tokenizer

_BRACKET = re.compile(r"([\[\]])")
_BRACKETED = re.compile(r"(\[[^\[\]]*\])")
LONGEST_SHOWN = 40


@dataclass(frozen=True)
class CleanText:
    """Text the tokenizer knows whole, and how it came about."""

    text: str
    warnings: tuple[str, ...]
    stages: tuple[tuple[str, str], ...] = ()
    """(name, text) of each stage, the text as given first."""


@dataclass
class _Notes:
    """What is said about a text."""

    warnings: dict[str, None] = field(default_factory=dict)
    silent: dict[str, None] = field(default_factory=dict)
    unknown: dict[str, None] = field(default_factory=dict)

    def all(self) -> tuple[str, ...]:
        found = list(self.warnings)
        if self.silent:
            found.append(f"left out marks that have no sound: {' '.join(self.silent)}")
        if self.unknown:
            found.append(f"left out {' '.join(map(repr, self.unknown))}: this voice does not know it")
        return tuple(found)


def clean_text(text: str, tokenizer: Tokenizer, normalize: bool = True, language: str = "auto") -> CleanText:
    """Remove prompt tokens always; with `normalize` also spell out numbers and symbols, and fold what the voice lacks.

    Args:
        text: as the user wrote it.
        tokenizer: the voice's.
        normalize: see above.
        language: "en", "zh", or "auto": what the text is written in. It decides how numbers are read.

    Raises:
        TextError: not a string, nothing left to speak, or letters or digits the tokenizer does not know.
    """
    if not isinstance(text, str):
        raise TextError(f"the text is a {type(text).__name__}; expected a string")
    reserved = tokenizer.specials - set(CONTROL_TAGS)
    notes, stages = _Notes(), [("as given", text)]
    if normalize:
        text = mark_line_breaks(text)
    text, meaningless = visible_characters(text)
    for char in meaningless:
        notes.warnings[f"left out {char!a}: it stands for no character"] = None
    if normalize:
        text = _without_unknown_brackets(fold_characters(text), reserved, notes)
        stages.append(("folded", text))
        spoken_in = main_language(text) if language == "auto" else language
        text = _outside_tags(text, lambda part: spell_out(part, spoken_in))
        stages.append(("spelled out", text))
        text = _outside_tags(text, lambda part: _for_voice(part, tokenizer, notes))
        text = tidy(text)
    text = _without_reserved(text, reserved, notes)
    stages.append(("for this voice", text))
    _require_speakable(text, tokenizer, stages)
    return CleanText(text, notes.all(), tuple(stages))


def _outside_tags(text: str, change: Callable[[str], str]) -> str:
    return "".join(part if _BRACKETED.fullmatch(part) else change(part) for part in _BRACKETED.split(text))


def _without_unknown_brackets(text: str, reserved: frozenset[str], notes: _Notes) -> str:
    """Bracketed parts that are no tags become plain words, also those inside others."""
    parts: list[str] = []
    opened: list[int] = []
    for part in filter(None, _BRACKET.split(text)):
        parts.append(part)
        if part == "[":
            opened.append(len(parts) - 1)
        elif part == "]" and opened:
            first = opened.pop()
            whole = _shown(parts, first)
            if whole in CONTROL_TAGS:
                parts[first:] = [whole]
            elif whole in reserved:
                parts[first:] = [" "]
                notes.warnings[_reserved_warning(whole)] = None
            else:
                parts[first] = parts[-1] = " "
                notes.warnings[f"{whole} is no control tag; spoken as plain text"] = None
    return "".join(parts)


def _shown(parts: list[str], first: int) -> str:
    """The parts from `first` on in one; the beginning, where that is long."""
    text = ""
    for index in range(first, len(parts)):
        text += parts[index]
        if len(text) > LONGEST_SHOWN:
            return f"{text[:LONGEST_SHOWN]}..."
    return text


def _for_voice(part: str, tokenizer: Tokenizer, notes: _Notes) -> str:
    """Marks, symbols and characters as the voice knows them."""
    if "'" in part and tokenizer.unknown_words("'"):
        part = without_contractions(part)
    silent = {char: None for char in part if char in SILENT}
    notes.silent |= silent
    part = part.translate({ord(char): " " for char in silent})
    part = as_pauses(part, {mark for mark in MARKS if not tokenizer.unknown_words(mark)})
    return _without_unknown_characters(part, tokenizer, notes)


def _without_unknown_characters(part: str, tokenizer: Tokenizer, notes: _Notes) -> str:
    """Replace characters the tokenizer lacks by their plain form or one of the same sound, or drop them where nobody
    would speak them.

    What a reader would speak and no token stands for is left in: it ends as an error, never in silence.
    """
    known: dict[str, str] = {}
    for char in dict.fromkeys(part):
        known[char] = char
        if char.isspace() or not tokenizer.unknown_words(char):
            continue
        plain = unicodedata.normalize("NFKC", char)
        if plain != char and not tokenizer.unknown_words(plain):
            known[char] = plain
        elif not any(c.isalnum() for c in plain):
            notes.unknown[char] = None
            known[char] = "" if char == "'" else " "
        elif (same := homophone(char, tokenizer)) is not None:
            notes.warnings[f"spoke {char} as {same}, which sounds the same: this voice does not know it"] = None
            known[char] = same
    return "".join(known[char] for char in part)


def _reserved_warning(token: str) -> str:
    return f"removed {token}: it belongs to the model's prompt"


def _without_reserved(text: str, reserved: frozenset[str], notes: _Notes) -> str:
    """Remove the tokens only the program may use; again until removing one uncovers no other."""
    found = True
    while found:
        found = False
        for token in sorted(reserved):
            if token in text:
                found = True
                notes.warnings[_reserved_warning(token)] = None
                text = " ".join(text.replace(token, " ").split())
    return text


def _require_speakable(text: str, tokenizer: Tokenizer, stages: list[tuple[str, str]]) -> None:
    unknown = tokenizer.unknown_words(text)
    if unknown:
        shown = ", ".join(repr(part[:LONGEST_SHOWN]) for part in unknown[:5]) + (" ..." if len(unknown) > 5 else "")
        raise TextError(
            f"this voice cannot speak {shown}: it knows no token for it. Use text in the voice's language, or an "
            f"engine set built from another checkpoint",
            stages,
        )
    if not any(c.isalnum() for c in _BRACKETED.sub("", text)):
        given = stages[0][1][:LONGEST_SHOWN]
        raise TextError(f"there is nothing to speak in {given!r}: it holds no letters or digits", stages)
