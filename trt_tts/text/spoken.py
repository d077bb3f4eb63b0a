"""Writes numbers, dates, times, money, units and symbols as the words a reader says.

The grammars are wetext's; what they leave, refuse or misread is rewritten before and after.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from trt_tts.text.language import HAN, language_runs
from trt_tts.text.rewrites import REWRITES
from trt_tts.text.symbols import DIGITS, LANGUAGES, NAMES

if TYPE_CHECKING:
    from wetext import Normalizer

_THREE_PARTS = r"(?<![\d.])(?!\d{4}\.\d\d?\.\d\d?\b|\d\d?\.\d\d?\.\d{4}\b)\d+(?:\.\d+){2,}(?!\.?\d)"
"""Of a version or an address; dates with dots are no such thing."""
_NEEDS = {
    "en": re.compile(
        rf"\d|[{re.escape(''.join(NAMES))}℃℉№½⅓⅔¼¾⅛]|://|\bwww\.|\w@\w|\b(?:Mrs?|Ms|Dr|Jr|Sr|Sgt|Rev|Gen|Capt|Lt)\b\.?"
    ),
    "zh": re.compile(rf"\d|[{re.escape(''.join(NAMES))}]"),
}
"""What no sentence without is changed."""
_PHONE = re.compile(
    r"(?<![\d)-])(?<![\d)-][ .])(?:\d{3}-\d{4}|(?:1 )?\d{3} \d{3} \d{4}|\d{3}\.\d{3}\.\d{4}|0\d{1,4}(?: \d{3,4}){2}|"
    r"\+(?=[\d ]{11})\d{1,3}(?: \d{2,5}){2,5})(?![\d-])"
)
_BETWEEN_GROUPS = re.compile(r"[ .-]")
_VERSION = re.compile(_THREE_PARTS)
_GLUED_VERSION = re.compile(rf"(?<=[A-Za-z])(?={_THREE_PARTS})")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=\D)|(?<=[。！？；])")
_AT_MOST = re.compile(r".{1,200}\Z|.{1,200}(?=[\s，、])|.{1,200}", re.DOTALL)
"""The grammars take time by the square of a sentence's length."""
_UNREAD = re.compile(r"""(["\\\[\]*_`|]|[^\S ]+)""")
"""wetext escapes quotes, refuses brackets and names the marks that people write for emphasis."""
_BY_DIGITS = re.compile(
    r"(?<![\d.])(?:\d{12,}(?![\d.])|\d{3,4}(?=室|航班|路公交|[pP](?![A-Za-z]))|\d0(?=[、和/]\d0后)|"
    r"(?:985|211)(?=大学|高校|院校|工程|[、/和])|996(?=工作|的?工作|福报)|618(?=大促|购物|活动|期间)|315(?=晚会)|911(?=事件))|"
    r"(?:(?<=[号编码])|(?<=[号编码][：: ])|(?<=QQ))\d{4,}(?![\d.])|"
    r"(?<=[A-Z])\d{1,4}(?=次)|(?<![A-Za-z][A-Z]{2})(?<=[A-Z]{2})\d{3,4}(?![\d.%])"
)
"""In Chinese read digit by digit: numbers that name cards, accounts, rooms, trains, flights, and years by their end."""
_ENGLISH_PIECE = re.compile(r"(\s+)")
_LATIN = re.compile(r"(°?[A-Za-zμ]+(?:/[A-Za-z]+)?)")
"""A word, or a unit."""
_COUNT = re.compile(
    r"one|two|three|five|ten|eleven|twelve|(?:four|six|seven|nine)(?:teen|ty)?|eight(?:een|y)?|"
    r"(?:thir|fif)(?:teen|ty)|twenty|forty|hundred"
)
"""The last word of how many thousands there are."""
_THOUSAND = re.compile(r"(?:(\w+) )?\bthousand\b")
_PER = re.compile(rf"(?<=[元块万亿倍次个百千零一二三四五六七八九十])/(?=[{HAN}])")
_SYMBOL = re.compile(f"[{re.escape(''.join(NAMES))}]")
_DIGIT = re.compile(r"[0-9]")


def spell_out(text: str, language: str) -> str:
    """`text`, of one `language` ("en" or "zh", parts in the other as `language_runs` finds them), without digits.

    No word is lost. White space may change where something was spelled out.
    """
    return "".join(
        "".join(_sentence(part, kind) for sentence in _split(_SENTENCE_END, run) for part in _AT_MOST.findall(sentence))
        for run, kind in language_runs(text, language)
    )


def _split(places: re.Pattern[str], text: str) -> list[str]:
    """`text` cut after each place; joined again, the parts are `text`."""
    cuts = [0, *(found.end() for found in places.finditer(text)), len(text)]
    return [text[first:last] for first, last in pairwise(cuts) if first < last]


def without_contractions(text: str) -> str:
    """English text with "it's" as "it is", for a voice that knows no apostrophe."""
    # The long form of o'clock is none that anybody says.
    words = re.sub("o'clock", "oclock", text, flags=re.IGNORECASE).split(" ")
    return " ".join(_wetext(word, "en", fix_contractions=True) or word if "'" in word else word for word in words)


def _sentence(text: str, language: str) -> str:
    if not _NEEDS[language].search(text):
        return text
    text = _digit_by_digit(text, language)
    for pattern, replacement in REWRITES[language]:
        text = pattern.sub(replacement, text)
    read = _english if language == "en" else _chinese
    parts = _UNREAD.split(text)
    return _leftovers("".join(part if index % 2 else read(part) for index, part in enumerate(parts)), language)


def _digit_by_digit(text: str, language: str) -> str:
    """Versions, English telephone numbers with one dash and Chinese account numbers as their digits."""
    place = LANGUAGES[language]

    def digits(number: str) -> str:
        return ("" if place else " ").join(DIGITS[digit][place] for digit in number)

    def telephone(found: re.Match[str]) -> str:
        groups = _BETWEEN_GROUPS.split(found.group().lstrip("+"))
        return "plus " * found.group().startswith("+") + ", ".join(map(digits, groups))

    point = "点" if place else " point "
    if language == "en":
        text = _GLUED_VERSION.sub(" ", _PHONE.sub(telephone, text))
    text = _VERSION.sub(lambda found: point.join(map(digits, found.group().split("."))), text)
    if language == "zh":
        return _BY_DIGITS.sub(lambda found: digits(found.group()), text)
    return text


def _english(text: str) -> str:
    if not text.strip():
        return text
    words = re.sub(r" +", " ", text.strip())
    spoken = _wetext(words, "en")
    if spoken is None:
        spoken = "".join(_wetext(word, "en") or word for word in _ENGLISH_PIECE.split(words))
    if "thousand" not in words.lower():
        spoken = _THOUSAND.sub(_one_thousand, spoken)
    return _between(text, spoken)


def _one_thousand(found: re.Match[str]) -> str:
    """wetext leaves out the one."""
    before = found[1]
    if before and _COUNT.fullmatch(before):
        return found.group()
    return f"{before} one thousand" if before else "one thousand"


def _chinese(text: str) -> str:
    """Words in Latin letters are kept from the grammar, which finds units inside them, unless they are units."""
    parts = _LATIN.split(text)
    pieces, done = [""], len(parts)
    for index in range(0, done, 2):
        pieces[-1] += parts[index]
        word = parts[index + 1] if index + 1 < done else ""
        if word and pieces[-1][-1:].isdigit() and _is_unit(word):
            pieces[-1] += word
        elif word:
            pieces += [word, ""]
    return "".join(piece if place % 2 else _read_chinese(piece) for place, piece in enumerate(pieces))


def _read_chinese(text: str) -> str:
    if not _NEEDS["zh"].search(text):
        return text
    spoken = _wetext(text.strip(), "zh")
    return text if spoken is None else _between(text, spoken)


@cache
def _is_unit(word: str) -> bool:
    """Whether the Chinese grammar reads all of `word` after a number."""
    spoken = _wetext(f"5{word}", "zh")
    return spoken is not None and not _LATIN.search(spoken)


def _between(given: str, spoken: str) -> str:
    """`spoken` with the white space that `given` has at its ends."""
    start, end = len(given) - len(given.lstrip()), len(given.rstrip())
    return given[:start] + spoken + given[end:]


def _leftovers(text: str, language: str) -> str:
    """Symbols by their names and digits one by one: nothing stays that a reader would say."""
    place, space = LANGUAGES[language], "" if language == "zh" else " "
    if language == "zh":
        text = _PER.sub("每", text)

    def name(found: re.Match[str]) -> str:
        said = NAMES[found.group()][place]
        return f" {said} " if said.isascii() else said

    text = _SYMBOL.sub(name, text)
    return _DIGIT.sub(lambda found: f"{space}{DIGITS[found.group()][place]}{space}", text)


def _wetext(text: str, language: str, fix_contractions: bool = False) -> str | None:
    """What the grammar makes of `text`, None where it refuses."""
    if not text:
        return ""
    try:
        spoken: str = _normalizer(language).normalize(text, fix_contractions=fix_contractions)
    # Its way to say that no path fits.
    except (AssertionError, RuntimeError, ValueError, IndexError, KeyError):
        return None
    return spoken.replace("\\", "")


@cache
def _normalizer(language: str) -> Normalizer:
    from wetext import Normalizer

    return Normalizer(lang=language)
