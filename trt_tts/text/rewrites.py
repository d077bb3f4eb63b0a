"""What wetext's grammars refuse or misread, written so that they read it right."""

from __future__ import annotations

import re

from trt_tts.text.symbols import DOLLARS, NAMES

_Rules = tuple[tuple[re.Pattern[str], str], ...]


def _rules(*pairs: tuple[str, str]) -> _Rules:
    return tuple((re.compile(pattern), replacement) for pattern, replacement in pairs)


_BOTH = _rules(
    ("\u2212", "-"),
    (r">=(?=\s*-?\d)", "≥"),
    (r"<=(?=\s*-?\d)", "≤"),
    (r"!=(?=\s*-?\d)", "≠"),
    (r"==+(?=\s*-?\d)", "="),
    (r"(?<!\d{4})(?<=\d) (?=(?:\d{3} )*000(?! ?\d))", ""),
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
_MONEY = "$€£¥₹₽₩₫฿₿"
_AMOUNT = r"\d+(?:\.\d+)?[多余几]?[十百千]?[万亿]*"
"""In Chinese."""
_CHINESE_MONEY = {
    **{rf"(?<![A-Za-z]){letters}\$": names[1] for letters, names in DOLLARS.items()},
    **{re.escape(symbol): NAMES[symbol][1] for symbol in _MONEY},
}
_SHORT_NUMBERS = {"110": "一百一十", "112": "一百一十二", "114": "一百一十四", "119": "一百一十九", "120": "一百二十"}
"""Telephone numbers to the grammar, wherever it does not know what they count."""
_BEFORE_NUMBERS = {
    "[Ff]ig": "figure", "[Ff]igs": "figures", "[Cc]h": "chapter", "Sec": "section", "Eq": "equation",
    "[Vv]ol": "volume", "p": "page", "pp": "pages",
}  # fmt: skip
_REFUSED = "‰≠≈≤≥±×÷√∞Ωπ§¢₹₽₩₫฿₿©®™"
"""Symbols the English grammar has no path for."""
REWRITES = {
    "en": (*_BOTH, *_rules(
        (r"(\d%?)\s*[-–—]\s*(?=\d[\d.]*%)", r"\1 to "),
        (r"([$€£¥])(\d[\d.,]*)\s*[-–]\s*[$€£¥]?(?=\d)", r"\2 to \1"),
        *(
            (rf"\b{letters}\$\s?(\d[\d,.]*\d|\d)((?:[kKMB]\b)?(?: (?:thousand|million|billion|trillion)\b)?)",
             rf"\1\2 {names[0]}")
            for letters, names in DOLLARS.items()
        ),
        (r"([$€£¥])-(?=\d)", r"negative \1"),
        (r"(?<=\d)\^(?=-?\d)", " to the power of "),
        (r"(?<![\w.)\-])-(?=[$€£¥]?\.?\d)", " negative "),
        (r"(?<=\d)e-(?=\d)", " e minus "),
        (r"(?<=\w) - (?=\d)", " minus "),
        (r"([$€£])(\d+)[kK]\b", r"\1\2,000"),
        (r"(?<=[A-Za-z])(?=\d+\.\d)", " "),
        (r"(?<![$€£\d.])(\d+\.\d+)(?=[A-Z]\b)", r"\1 "),
        (r"(\d)'\s?(\d{1,2})(?:\"|'')", r"\1 feet \2"),
        *((rf"\b{short}\. ?(?=\d)", f"{word} ") for short, word in _BEFORE_NUMBERS.items()),
        (r"([$€£¥]\d[\d.,]*) ?m\b", r"\1 million"),
        (r"\b(\d+)h ?(\d+)m\b", r"\1 h \2 min"),
        (r"\b(\d+)h(\d\d)\b", r"\1 h \2 min"),
        (r"(?<=\d) ?secs?\b", " seconds"),
        (r"(?<=\d[cm]m) ?[x×] ?(?=\d)", " by "),
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
        (r"\b([25]0)/\1\b", r"\1 \1"),
        (r"(?<![\d/.])(\d|10)/10(?![\d/.])", r"\1 out of 10"),
        (r"\b100s(?= of\b)", "hundreds"),
        (r"\b1,?000s(?= of\b)", "thousands"),
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
        (r"([₹₽₩₫฿₿¢])\s?(\d[\d,.]*\d|\d)", r"\2 \1"),
        *((re.escape(symbol), f" {NAMES[symbol][0]} ") for symbol in _REFUSED),
    )),
    "zh": (*_BOTH, *_rules(
        (r"(?<=\d),(?=\d{3}(?!\d))", ""),
        (r"(?<=\d) (?=\d+/\d)", "又"),
        (r"(\d%?)\s*[-~～–—]\s*(?=\d[\d.]*%)", r"\1到"),
        (r"(?<![\dA-Za-z.%])-(?=\d[\d.]*%)", "负"),
        (r"(?<![\dA-Za-z.%])\+(?=\d[\d.]*%)", "正"),
        (r"约(\d+)/(\d+)", r"约\2分之\1"),
        (r"(?<!\d)-([$€£¥])(?=\d)", r"负\1"),
        *(
            rule for sign, name in _CHINESE_MONEY.items() for rule in (
                (rf"{sign}\s?({_AMOUNT})\s*[-~～–—]\s*(?:{sign})?\s?({_AMOUNT})(?:\s?元)?", rf"\1到\2{name}"),
                (rf"{sign}\s?({_AMOUNT})(?:\s?元)?", rf"\1{name}"),
            )
        ),
        (r"元/kg", "元每千克"),
        (r"元/m²", "元每平方米"),
        (r"(?<=\d)[ ]?m/s²", "米每平方秒"),
        (r"(?<=\d)[ ]?g/cm[³3]", "克每立方厘米"),
        (r"\+86[ -]?(?=1\d\d[ -]?\d{4}[ -]?\d{4}(?!\d))", "加八六，"),
        (r"(?<!\d)(1\d\d)[ -](\d{4})[ -](\d{4})(?!\d)", r"\1\2\3"),
        (r"(?<!\d)([48]00) (\d{3,4}) (\d{3,4})(?!\d)", r"\1-\2-\3"),
        (r"(?<!\d)(0\d{2,3}) (\d{7,8})(?!\d)", r"\1-\2"),
        (r"(?<=[午上晨])(\d{1,2}:\d\d) ?[apAP]\.?[mM](?![A-Za-z])", r"\1"),
        (r"(?<=[午上晨])(\d{1,2}) ?(?:am|AM|pm|PM)(?![A-Za-z])", r"\1点"),
        (r"(\d{1,2}:\d\d) ?[aA]\.?[mM](?![A-Za-z])", r"上午\1"),
        (r"(\d{1,2}:\d\d) ?[pP]\.?[mM](?![A-Za-z])", r"下午\1"),
        (r"(?<![\d:])(\d{1,2}) ?(?:am|AM)(?![A-Za-z])", r"上午\1点"),
        (r"(?<![\d:])(\d{1,2}) ?(?:pm|PM)(?![A-Za-z])", r"下午\1点"),
        (r"(?<=\w)\^(-?\d+)", r"的\1次方"),
        (r"(?<=\w)\s*>\s*(?=-?\d)", "大于"),
        (r"(?<=\w)\s*<\s*(?=-?\d)", "小于"),
        (r"(?<!\w)[~～≈](?=\d)", "约"),
        (r"(?<![\w.])\.(?=\d)", "0."),
        (r"(?<=\d)w(?![A-Za-z])", "万"),
        (r"(?<=[图表例式])(\d+)[-–](\d+)(?!\d)", r"\1杠\2"),
        (r"(?<=[歼轰运苏图风舟征击浪娥])-(?=\d)", ""),
        (r"(?<!\d)((?:19|20)\d\d)/0?([1-9]|1[0-2])(?![\d/])", r"\1年\2月"),
        *((rf"(?<![\d.]){number}(?=次|平|路|[A-Za-z])", words) for number, words in _SHORT_NUMBERS.items()),
        (r"(?<=\d)[ ]+(?=(?:km|kg|cm|mm|mg|ml|m)\b)", ""),
        (r"(第\s*\d+)\s*[-~～–—]\s*(?=\d)", r"\1到"),
        (r"(?<=\d)\s*[–—]\s*(?=\d)", "到"),
        (r"(?<![\d-])((?:1[89]|20)\d\d)[-~～]((?:1[89]|20)\d\d)(?![\d.-]|\s?[\w%])", r"\1年到\2年"),
        (r"(?<![\d-])([12]\d{3})-([12]\d{3})(?![\d-])(?!年)", r"\1到\2"),
        (r"(?<=\d)\s*[x×✕*]\s*(?=\d)", "乘"),
        (r"(?:\bNo\.\s*|#\s*|№\s*)(\d+)号?", r"\1号"),
        (r"(\d+(?:\.\d+)?)‰", r"千分之\1"),
        (r"¢\s?(\d[\d.]*)", r"\1¢"),
    )),
}  # fmt: skip
"""By language, in the order in which they are applied."""
