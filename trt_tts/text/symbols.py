"""Symbols a reader says as words, and the pauses that marks stand for."""

from __future__ import annotations

import re

NAMES = {
    "#": ("hash", "井号"), "&": ("and", "和"), "@": ("at", "at"), "%": ("percent", "百分号"),
    "‰": ("per mille", "千分号"), "+": ("plus", "加"), "=": ("equals", "等于"), "≠": ("is not", "不等于"),
    "≈": ("about", "约等于"), "≤": ("at most", "小于等于"), "≥": ("at least", "大于等于"),
    "±": ("plus or minus", "正负"), "×": ("times", "乘"), "÷": ("divided by", "除以"), "√": ("root of", "根号"),
    "∞": ("infinity", "无穷大"), "²": ("squared", "平方"), "³": ("cubed", "立方"), "°": ("degrees", "度"),
    "Ω": ("ohms", "欧姆"), "π": ("pi", "派"), "§": ("section", "章节"), "$": ("dollars", "美元"),
    "€": ("euros", "欧元"), "£": ("pounds", "英镑"), "¥": ("yen", "元"), "¢": ("cents", "美分"),
    "₹": ("rupees", "卢比"), "₽": ("rubles", "卢布"), "₩": ("won", "韩元"), "₫": ("dong", "越南盾"),
    "฿": ("baht", "泰铢"), "₿": ("bitcoins", "比特币"), "©": ("copyright", "版权"), "®": ("registered", "注册"),
    "™": ("trademark", "商标"),
}  # fmt: skip
"""What is said for a symbol, in English and in Chinese."""
DOLLARS = {
    "US": ("US dollars", "美元"), "HK": ("Hong Kong dollars", "港元"), "NT": ("new Taiwan dollars", "新台币"),
    "AU?": ("Australian dollars", "澳元"), "CA?": ("Canadian dollars", "加元"),
    "NZ": ("New Zealand dollars", "新西兰元"), "S": ("Singapore dollars", "新加坡元"), "R": ("reais", "雷亚尔"),
}  # fmt: skip
"""Patterns of what stands before a dollar sign -> what is said, in English and in Chinese."""
DIGITS = {
    "0": ("zero", "零"), "1": ("one", "一"), "2": ("two", "二"), "3": ("three", "三"), "4": ("four", "四"),
    "5": ("five", "五"), "6": ("six", "六"), "7": ("seven", "七"), "8": ("eight", "八"), "9": ("nine", "九"),
}  # fmt: skip
"""The names of the digits, in English and in Chinese."""
LANGUAGES = {"en": 0, "zh": 1}
"""Place of a language in the pairs above."""

SILENT = '"“”„«»‹›「」『』《》〈〉*_`^|\\~'
"""Marks nobody hears."""
PAUSES = {
    **dict.fromkeys(":;()<>—–―‥", ", "), **dict.fromkeys("!…", ". "), **dict.fromkeys("-/·‐‑", " "),
    **dict.fromkeys("：；（）【】〔〕〖〗", "，"), "！": "。",
}  # fmt: skip
"""Marks the model was not trained on -> the pause it knows that a reader would make there."""
_FORMS = {",": "，", ".": "。", "?": "？", "，": ",", "。": ".", "？": "?", "、": "，"}
MARKS = ",.?，。？、"
"""What a voice may know as a pause or a question."""
_STRENGTH = ",，、.。?？"
_SPACE_BEFORE = re.compile(rf"\s+(?=[{MARKS}])")
_SEVERAL = re.compile(rf"[{MARKS}](?:\s*[{MARKS}])+")


def as_pauses(text: str, knows: set[str]) -> str:
    """Marks as the pauses of a voice that `knows` some of the `MARKS`."""
    text = "".join(PAUSES.get(char, char) for char in text)
    return "".join(_known_form(char, knows) for char in text)


def tidy(text: str) -> str:
    """Single spaces, none before a mark, no mark at the start; of several marks in a row the strongest stays."""
    text = _SPACE_BEFORE.sub("", " ".join(text.split()))
    text = _SEVERAL.sub(lambda found: max(found.group(), key=_STRENGTH.index), text)
    return text.lstrip(f" {MARKS}")


def _known_form(char: str, knows: set[str]) -> str:
    """A mark, or the first of its other forms that is known."""
    form = char
    for _ in range(2):
        if form in knows or form not in _FORMS:
            return form
        form = _FORMS[form]
    return form if form in knows else char
