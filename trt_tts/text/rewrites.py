"""What wetext's grammars refuse or misread, written so that they read it right."""

from __future__ import annotations

import re

from trt_tts.text.symbols import NAMES

_Rules = tuple[tuple[re.Pattern[str], str], ...]


def _rules(*pairs: tuple[str, str]) -> _Rules:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


_BOTH = _rules(
    ("\u2212", "-"),
    (r"[\u2010-\u2013](?=\d)", "-"),
    ("℃", "°C"),
    ("℉", "°F"),
    ("％", "%"),
    ("￥", "¥"),
    ("µ", "μ"),
    ("⁄", "/"),
    (r"(?<!\w)#+(?=\s)", " "),
    (r"(?<=[A-Za-z])(?<![\d ][ap]m)(?<!\de)-(?=\d)", " "),
    (r"([$€£¥₹])[ ]+(?=\d)", r"\1"),
    (r"(\d[\d.,]*)[ ]?([€£])(?!\d)", r"\2\1"),
    (r"(\d{4}-\d\d-\d\d)T(?=\d\d:)", r"\1 "),
)
_REFUSED = "‰≠≈≤≥±×÷√∞Ωπ§¢₹₽₩₫฿₿©®™"
"""Symbols the English grammar has no path for."""
REWRITES = {
    "en": (*_BOTH, *_rules(
        (r"(\d%?)\s*[-–—]\s*(?=\d[\d.]*%)", r"\1 to "),
        (r"([$€£¥])(\d[\d.,]*)\s*[-–]\s*[$€£¥]?(?=\d)", r"\2 to \1"),
        (r"([$€£¥])-(?=\d)", r"negative \1"),
        (r"(?<![\w.)\-])-(?=[$€£¥]?\.?\d)", " negative "),
        (r"(?<=\d)e-(?=\d)", " e minus "),
        (r"(?<=\w) - (?=\d)", " minus "),
        (r"([$€£])(\d+)[kK]\b", r"\1\2,000"),
        (r"(?<=[A-Za-z])(?=\d+\.\d)", " "),
        (r"(?<![$€£\d.])(\d+\.\d+)(?=[A-Z]\b)", r"\1 "),
        (r"(\d)'\s?(\d{1,2})(?:\"|'')", r"\1 feet \2"),
        (r"(?<=\d)[ ]?m/s\b", " meters per second"),
        (r"(?<=\d)[ ]?m\b(?![²³/'])", " meters"),
        (r"(?<=\d)\s*\*\s*(?=\d)", " times "),
        (r"(?<=\d)²", " squared"),
        (r"(?<=\d)³", " cubed"),
        (r"(?<=\d)\+(?!\s*\d)", " plus"),
        (r"(?<=\d)\s*[~～]\s*(?=\d)", " to "),
        (r"[~～≈]\s*(?=\d)", "about "),
        (r"\b([12]\d{3})-([12]\d{3})\b", r"\1 to \2"),
        (r"(\d(?:st|nd|rd|th))[-/](?=\w)", r"\1 "),
        (r"\b24/7\b", "24 7"),
        (r"\b9/11\b", "9 11"),
        (r"\b((?i:call|dial)\w*) (\d)11\b", r"\1 \2 1 1"),
        (r"\b(1[1-9]|20)([1-9]0)'?s\b", r"\1 \2s"),
        (r"\b(1[1-9])00'?s\b", r"\1 hundreds"),
        (r"(?<![\d,.])([1-9])000\b(?!s|\.\d)", r"\1,000"),
        (r"(?<![\d,.])([1-9])00([1-9])\b(?!\.\d)", r"\1,00\2"),
        (r"\b[Nn]o\.\s*(?=\d)|#\s*(?=\d)|№\s*", "number "),
        (r"(?<=[^\W\d_a-zA-Z])(?=\d)", " "),
        (r"(?<=\w)\s*>\s*(?=\d)", " is more than "),
        (r"(?<=\w)\s*<\s*(?=\d)", " is less than "),
        (r"(?<=\d)\^(?=-?\d)", " to the power of "),
        (r"([₹₽₩₫฿₿¢])\s?(\d[\d,.]*\d|\d)", r"\2 \1"),
        *((re.escape(symbol), f" {NAMES[symbol][0]} ") for symbol in _REFUSED),
    )),
    "zh": (*_BOTH, *_rules(
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"(?<=\d) (?=\d+/\d)", "又"),
        (r"[¥￥]\s*(\d[\d.]*)\s*元", r"\1元"),
        (r"(\d%?)\s*[-~～–—]\s*(?=\d[\d.]*%)", r"\1到"),
        (r"约(\d+)/(\d+)", r"约\2分之\1"),
        (r"-([$€£¥])(?=\d)", r"负\1"),
        (r"(?<=\d)[ ]+(?=(?:km|kg|cm|mm|mg|ml|m)\b)", ""),
        (r"(第\s*\d+)\s*[-~～–—]\s*(?=\d)", r"\1到"),
        (r"(?<=\d)\s*[–—]\s*(?=\d)", "到"),
        (r"(?<![\d-])([12]\d{3})-([12]\d{3})(?![\d-])(?!年)", r"\1到\2"),
        (r"(?<=\d)\s*[x×✕*]\s*(?=\d)", "乘"),
        (r"(?:\bNo\.\s*|#\s*|№\s*)(\d+)号?", r"\1号"),
        (r"(\d+(?:\.\d+)?)‰", r"千分之\1"),
        (r"([₹₽₩₫฿₿¢])\s?(\d[\d.]*)", r"\2\1"),
    )),
}  # fmt: skip
"""By language, in the order in which they are applied."""
