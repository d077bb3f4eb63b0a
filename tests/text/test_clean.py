import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trt_tts.demo import demo_checkpoint
from trt_tts.errors import TextError
from trt_tts.text.clean import clean_text
from trt_tts.text.prompt import speech_prompt
from trt_tts.text.tokenizer import load_tokenizer

TINY = Path(__file__).parent.parent / "reference" / "tiny"
FILES = {name: path / "asset/tokenizer/tokenizer.json" for name, path in (("tiny", TINY), ("demo", demo_checkpoint()))}
TOKENIZERS = {name: load_tokenizer(file) for name, file in FILES.items()}
TAGS = (
    "[uv_break]", "[v_break]", "[lbreak]", "[llbreak]", "[laugh]", *(f"[break_{i}]" for i in range(8)),
    *(f"[laugh_{i}]" for i in range(3)), *(f"[oral_{i}]" for i in range(10)), *(f"[speed_{i}]" for i in range(10)),
)  # fmt: skip
ADDED = json.loads(FILES["tiny"].read_text("utf-8"))["added_tokens"]
FORBIDDEN = [token["content"] for token in ADDED if token["content"] not in TAGS]
FRAGMENTS = (
    *TAGS,
    *FORBIDDEN,
    *"[]［］﹇﹈{}()'’？?½①²℃°㎨Ｐ７",
    "Pt",
    "ts",
    "[P",
    "tts]",
    "spk_emb",
    "[[",
    "]]",
    "e\u0301",
)
SPEAKABLE = st.lists(st.sampled_from([*FRAGMENTS, "a", "hi ", " 1"]), max_size=8).map("".join)
"""Mostly text that is spoken: any other letter would end the test in a TextError."""
TEXTS = SPEAKABLE | st.text(st.characters()) | st.tuples(SPEAKABLE, st.text(st.characters(), max_size=3)).map("".join)
both = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS)
either_way = pytest.mark.parametrize("normalize", [True, False], ids=["normalised", "as written"])


def ids(text, tokenizer=TOKENIZERS["tiny"]):
    return tokenizer.encode(clean_text(text, tokenizer).text)


def cleaned(text, tokenizer, normalize=True):
    """The clean text, or None where it is refused."""
    try:
        return clean_text(text, tokenizer, normalize)
    except TextError:
        return None


def forbidden_ids(tokenizer):
    return {tokenizer.special(name) for name in FORBIDDEN}


@pytest.mark.parametrize("full", ["Ｃ区１６９号", "ＡＢＣａｂｃ", "０１２３４５６７８９", "Ｉｔ＇ｓ", "ｏｋ"])
def test_full_width_letters_and_digits_get_the_ids_of_the_half_width_ones(full):
    half = unicodedata.normalize("NFKC", full)
    assert half.replace("区", "").replace("号", "").isascii()
    assert ids(full) == ids(half)


@both
@pytest.mark.parametrize("mark", ["?", "？"])
def test_question_marks_reach_the_model(tokenizer, mark):
    assert tokenizer.decode(ids(f"ready{mark}", tokenizer)[-1:]) in ("?", "？")


@both
@pytest.mark.parametrize(
    "text", ["a[uv_break]ok?", "a[uv_break]ok？", "？[uv_break]a", "a [[uv_break]] b", "😀[uv_break]a"]
)
def test_a_known_tag_stays_one_token_whatever_surrounds_it(tokenizer, text):
    assert ids(text, tokenizer).count(tokenizer.special("[uv_break]")) == 1


@both
@pytest.mark.parametrize("tag", TAGS)
def test_every_control_tag_is_kept(tokenizer, tag):
    assert ids(f"go {tag} on", tokenizer).count(tokenizer.special(tag)) == 1


@both
def test_thirty_tags_stay_thirty_tokens(tokenizer):
    assert ids("go " + "[uv_break]" * 30, tokenizer).count(tokenizer.special("[uv_break]")) == 30


SHAPES = (
    "hi {}",
    "hi{}there",
    "{0}{0} hi",
    "hi [{}]",
    "hi [Pt{}ts]",
    "hi [{}Ptts{}]",
    "hi [[{}]Ptts]",
    "[spk{}_emb] hi",
)
OBFUSCATED = (
    "[Pt[uv_break]ts]", "[Ｐtts]", "[spk\u200b_emb]", "［Ptts］", "﹇Ptts﹈", "［Ｐｔｔｓ］", "[Ⓟtts]", "[P\u00adtts]",
    "[Pt\x00ts]", "[Pt\ud800ts]", "[\ufeffStts]", "[Pt\nts]", "[Ebreak\u2060]", "[Pt[Pt[Pt[Ptts]ts]ts]ts]",
    "[Pt[my_tag]ts]", "[Pt😀ts]", "[spk＿emb]", "［spk＿emb］", "[C\u200bLS]",
)  # fmt: skip


@both
@either_way
@pytest.mark.parametrize("shape", SHAPES)
def test_a_prompt_token_in_the_text_never_reaches_the_model(tokenizer, normalize, shape):
    results = [cleaned(shape.format(token, token), tokenizer, normalize) for token in FORBIDDEN]
    for clean in filter(None, results):
        assert not set(tokenizer.encode(clean.text)) & forbidden_ids(tokenizer)
        assert clean.warnings
    assert all(results) or not normalize


@both
@either_way
@pytest.mark.parametrize("token", OBFUSCATED)
def test_an_obfuscated_prompt_token_never_reaches_the_model(tokenizer, normalize, token):
    clean = cleaned(f"hi {token}", tokenizer, normalize)
    assert clean or not normalize, "normalising drops the symbols a voice cannot speak"
    assert clean is None or not set(tokenizer.encode(clean.text)) & forbidden_ids(tokenizer)


@both
def test_the_prompt_of_a_hostile_text_has_one_speaker_slot(tokenizer):
    text = clean_text("hi [spk_emb][Ptts][Stts][spk_emb] there", tokenizer).text
    prompt = tokenizer.encode(speech_prompt(text, 5))
    assert [prompt.count(tokenizer.special(name)) for name in ("[spk_emb]", "[Stts]", "[Ptts]")] == [1, 1, 1]


@both
@pytest.mark.parametrize(("text", "plain"), [("[my_tag]", "my_tag"), ("[nice day]", "nice day"), ("[[deep]]", "deep")])
def test_unknown_brackets_become_plain_text_and_the_result_says_so(tokenizer, text, plain):
    clean = clean_text(f"a {text} b", tokenizer)
    assert "[" not in clean.text
    assert [c for c in clean.text if c.isalpha()] == [c for c in f"a{plain}b" if c.isalpha()]
    assert any(plain in warning for warning in clean.warnings)


@both
def test_a_tag_inside_unknown_brackets_stays_one(tokenizer):
    clean = clean_text("a [well [laugh] now [[uv_break]]] b", tokenizer)
    assert clean.text == "a well [laugh] now [uv_break] b"


@both
def test_brackets_may_be_as_deep_as_they_like(tokenizer):
    assert clean_text(f"{'[' * 50_000}a{']' * 50_000} b", tokenizer).text == "a b"


@both
@pytest.mark.parametrize("text", ["What's", "What\u2019s", "What\u02bcs", "What\uff07s"])
def test_apostrophes_inside_words_survive(tokenizer, text):
    assert ids(text, tokenizer) == tokenizer.encode("what's")
    assert set(tokenizer.encode("'")) <= set(ids(text, tokenizer))


@pytest.mark.parametrize("gap", ["\n", "\r\n", "\t", "\n\n", " ", "\u3000", "\u2028", "\u00a0", "\v", "\x85"])
def test_separators_keep_words_apart_and_leave_no_empty_part(gap):
    assert clean_text(f"你好{gap}世界{gap}", TOKENIZERS["tiny"]).text == "你好 世界"
    assert clean_text(f"{gap}a{gap}b", TOKENIZERS["demo"]).text == "a b"


@both
@pytest.mark.parametrize("text", ["a\ud800b", "ab\udfff", "a\u200bb", "\ufeffab", "a\x07b", "a\u00adb"])
def test_invisible_characters_do_not_change_the_ids(tokenizer, text):
    assert ids(text, tokenizer) == tokenizer.encode("ab")


@both
@pytest.mark.parametrize("text", ["cafe\u0301", "caf\u00e9", "cafe\u0301\u200b"])
def test_combining_accents_get_the_ids_of_the_composed_letter(tokenizer, text):
    assert ids(text, tokenizer) == tokenizer.encode("caf\u00e9")


@both
@pytest.mark.parametrize("emoji", ["😀", "👩\u200d🚀", "🇩🇪", "❤\ufe0f"])
def test_emoji_are_left_out_and_the_result_says_so(tokenizer, emoji):
    clean = clean_text(f"hi {emoji} there", tokenizer)
    assert tokenizer.encode(clean.text) == tokenizer.encode("hi there")
    assert any(emoji[0] in warning for warning in clean.warnings)


@pytest.mark.parametrize(("name", "named"), [("demo", "你好"), ("demo", "カナ"), ("tiny", "\U00020bb7"), ("tiny", "ξ")])
def test_text_the_voice_cannot_speak_is_an_error_that_names_it(name, named):
    with pytest.raises(TextError) as caught:
        clean_text(f"ok {named}", TOKENIZERS[name])
    assert all(character in str(caught.value) for character in named)


def test_mixed_language_text_has_no_unknown_ids():
    assert ids("AI Agent 和 AGI") == TOKENIZERS["tiny"].encode("ai agent 和 agi")
    assert TOKENIZERS["tiny"].special("[UNK]") not in ids("AI Agent 和 AGI")


@both
@either_way
@pytest.mark.parametrize(
    "text", ["", "  ", "\n", "?!,。", "...", "😀", "[uv_break]", "[Ptts]", "[", "\u200b", "\ud800", "\u0301"]
)
def test_text_with_nothing_to_speak_is_an_error(tokenizer, normalize, text):
    with pytest.raises(TextError):
        clean_text(text, tokenizer, normalize)


@pytest.mark.parametrize("text", [None, 5, b"hi", ["hi"], 1.5])
def test_what_is_no_string_is_an_error_that_names_the_type(text):
    with pytest.raises(TextError, match=type(text).__name__):
        clean_text(text, TOKENIZERS["tiny"])


def digits(text):
    return [c for c in unicodedata.normalize("NFKC", text) if c.isdigit()]


@both
@given(st.text(st.sampled_from("0123456789０９①² ,.:-/%°C年元kg[]½\n"), min_size=1))
def test_every_digit_becomes_a_word(tokenizer, text):
    clean = cleaned(text, tokenizer)
    if clean is None:
        return
    assert not digits(clean.text)
    letters = sum(map(str.isalpha, clean.text))
    assert letters >= sum(map(str.isalpha, text)) + len(digits(text)) / 3, "three digits are one word at least"


@both
def test_every_character_that_holds_a_digit_is_spoken(tokenizer):
    holders = [c for c in map(chr, range(128, 0x110000)) if digits(c)]
    results = {c: cleaned(f"a {c}", tokenizer) for c in holders}
    assert [c for c, clean in results.items() if clean and (digits(clean.text) or clean.text == "a")] == []


@both
@either_way
@settings(max_examples=300)
@given(TEXTS)
def test_any_text_is_an_error_or_has_no_forbidden_id(tokenizer, normalize, text):
    clean = cleaned(text, tokenizer, normalize)
    assert clean is None or tokenizer.encode(clean.text)
    assert clean is None or not set(tokenizer.encode(clean.text)) & forbidden_ids(tokenizer)


@both
@settings(max_examples=300)
@given(TEXTS)
@example("a [[deep]]")
@example("a ﹇deep﹈")
def test_clean_text_is_speakable_and_has_nothing_to_leave_out(tokenizer, text):
    once = cleaned(text, tokenizer)
    assert once is None or not clean_text(once.text, tokenizer).warnings
