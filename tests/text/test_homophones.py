"""T14: a character the tokenizer lacks is replaced by one of the same sound, or reported."""

import pytest

from tests.text.test_clean import TOKENIZERS
from trt_tts.errors import TextError
from trt_tts.text.clean import clean_text
from trt_tts.text.homophones import homophone

TINY = TOKENIZERS["tiny"]
"""It knows the common Chinese characters."""


@pytest.mark.parametrize(
    ("rare", "sounds"), [("喆", "哲"), ("堃", "坤昆"), ("囧", "炯窘"), ("鱻", "先仙鲜"), ("珺", "俊郡峻")]
)
def test_a_rare_character_is_spoken_by_a_common_one(rare, sounds):
    assert rare not in TINY.characters()
    found = homophone(rare, TINY)
    assert found in sounds and found in TINY.characters()
    clean = clean_text(f"陶{rare}来了", TINY)
    assert clean.text == f"陶{found}来了"
    assert any(rare in warning and found in warning for warning in clean.warnings)
    assert TINY.special("[UNK]") not in TINY.encode(clean.text)


@pytest.mark.parametrize("char", ["\U00020bb7", "é", "ξ", "x"])
def test_what_has_no_reading_has_no_homophone(char):
    assert homophone(char, TINY) is None


def test_a_voice_without_chinese_has_no_homophones():
    assert homophone("喆", TOKENIZERS["demo"]) is None
    with pytest.raises(TextError, match="喆"):
        clean_text("ok 喆", TOKENIZERS["demo"])
