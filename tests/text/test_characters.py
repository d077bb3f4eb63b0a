import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.text.characters import fold_characters, visible_characters


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("Ｃ区１６９号", "C区169号"),
        ("１，２３４．５６元", "1,234.56元"),
        ("８：３０", "8:30"),
        ("１００％，好！", "100%，好！"),
        ("٣٤", "34"),
        ("𝟙𝟚", "12"),
        ("①②", "1 2"),
        ("第Ⅳ章", "第4章"),
        ("⑳", "20"),
        ("½", "1/2"),
        ("1½", "1 1/2"),
        ("H₂O", "H2O"),
        ("10²", "10²"),
        ("5㎏", "5kg"),
        ("5㎡", "5m²"),
        ("二〇二四", "二〇二四"),
        ("e\u0301", "é"),
        ("﹇Ptts﹈", "[Ptts]"),
        ("it\u2019s", "it's"),
        ("Chapter IV\nWorld War II", "Chapter 4\nWorld War 2"),
        ("CHAPTER I.", "CHAPTER 1."),
        ("World War I was", "World War 1 was"),
        ("Volume LXXXIX, Book XLII", "Volume 89, Book 42"),
        ("the Part I play, Section I'm in", "the Part I play, Section I'm in"),
        ("Chapter XC, Chapter VIIII, Part Ivy, XIV", "Chapter XC, Chapter VIIII, Part Ivy, XIV"),
    ],
)
def test_forms_are_folded(text, plain):
    assert fold_characters(text) == plain


@given(st.text())
def test_every_decimal_digit_becomes_a_plain_one(text):
    folded = fold_characters(text)
    assert all(c.isascii() for c in folded if unicodedata.decimal(c, None) is not None)
    wanted = [str(unicodedata.decimal(c)) for c in text if unicodedata.decimal(c, None) is not None]
    found = iter(folded)
    assert all(any(c == digit for c in found) for digit in wanted), "in their order"


@pytest.mark.parametrize(
    ("text", "visible", "meaningless"),
    [
        ("a\u200bb\u00ad", "ab", ()),
        ("a\tb\r\nc\u2028d", "a b c d", ()),
        ("a\ud800b", "ab", ("\ud800",)),
        ("\ue000", "", ("\ue000",)),
    ],
)
def test_what_cannot_be_seen_is_dropped(text, visible, meaningless):
    assert visible_characters(text) == (visible, meaningless)
