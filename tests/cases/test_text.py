"""T1 to T16: what goes wrong with texts, held at the prompt's token ids and in the sound."""

import numpy as np
import pytest

from trt_tts import TextError
from trt_tts.cli.input_text import decode_text
from trt_tts.options import SynthesisOptions
from trt_tts.text.prompt import CONTROL_TAGS, PROMPT_TOKENS, speech_prompt


@pytest.fixture
def frontend(tiny_engine):
    """Of a checkpoint that knows common Chinese characters, and letters."""
    return tiny_engine._frontend


def ids(frontend, text, **options):
    """Token ids of all segments of a text."""
    prepared = frontend.prepare(text, SynthesisOptions(**options))
    return [number for segment in prepared.segments for number in frontend.tokenizer.encode(segment.text)]


def spoken(frontend, text, **options):
    return " ".join(segment.text for segment in frontend.prepare(text, SynthesisOptions(**options)).segments)


T1 = {
    "今年4月15日": "今年四月十五日",
    "1998年": "一九九八年",
    "电话13800138000": "电话幺三八零零幺三八零零零",
    "下午3:30": "下午三点三十分",
    "10-20人": "十到二十人",
    "2/3的人": "三分之二的人",
    "零下-5度": "零下负五度",
    "1,234.56元": "一千二百三十四点五六元",
    "涨了3.5%": "涨了百分之三点五",
    "100%安全": "百分之一百安全",
    "水温50°C": "水温五十摄氏度",
    "重5kg": "重五千克",
    "GPT-4o 很强": "GPT 四o 很强",
    "加½杯": "加二分之一杯",
    "on April 15, 2024": "on the fifteenth of april, twenty twenty four",
    "call 555-1234": "call five five five, one two three four",
    "at 3:30 pm": "at three thirty PM",
    "10-20 people": "ten to twenty people",
    "2/3 cup": "two thirds cup",
    "-5 degrees": "negative five degrees",
    "$1,234.56": "one thousand two hundred and thirty four point five six dollars",
    "3.5%": "three point five percent",
    "100% safe": "one hundred percent safe",
    "50°C": "fifty degrees Celsius",
    "5kg": "five kilograms",
    "GPT-4o": "GPT four o",
    "½ cup": "one half cup",
}


@pytest.mark.parametrize(("text", "words"), T1.items())
def test_t1_no_digit_survives_unspoken(frontend, text, words):
    assert ids(frontend, text) == ids(frontend, words)
    assert not any(map(str.isdigit, spoken(frontend, text)))


@pytest.mark.parametrize(
    ("full", "half"), [("Ｃ区１６９号", "C区169号"), ("ＡＩ２０％", "AI20%"), ("１，０００元", "1,000元")]
)
def test_t3_full_width_forms_have_the_ids_of_the_half_width_ones(frontend, full, half):
    assert ids(frontend, full) == ids(frontend, half)


@pytest.mark.parametrize("text", ["你好吗？", "are you there?", "are you there？", "真的?"])
def test_t4_a_question_keeps_its_mark(frontend, text):
    assert frontend.tokenizer.decode(ids(frontend, text)[-1:]) in ("?", "？")


@pytest.mark.parametrize(
    "text", ["好吗？[uv_break]好。", "ok?[uv_break]ok?", "？[uv_break]好", "😀[uv_break]好", "3[uv_break]4"]
)
def test_t5_a_tag_is_one_token_whatever_surrounds_it(frontend, text):
    assert ids(frontend, text).count(frontend.tokenizer.special("[uv_break]")) == 1


@pytest.mark.parametrize("tag", CONTROL_TAGS)
def test_t6_any_number_of_any_tag(frontend, tag):
    text = "好" + tag * 30 + "go " + tag * 30
    assert ids(frontend, text).count(frontend.tokenizer.special(tag)) == 60


@pytest.mark.parametrize("token", PROMPT_TOKENS)
@pytest.mark.parametrize("normalize", [True, False])
def test_t8_user_text_puts_no_prompt_token_into_the_prompt(frontend, token, normalize):
    prepared = frontend.prepare(f"hi {token} there{token}", SynthesisOptions(normalize=normalize))
    (segment,) = prepared.segments
    encode = frontend.tokenizer.encode
    assert encode(speech_prompt(segment.text, 5)) == encode("[Stts][spk_emb][speed_5]hi there[Ptts]")
    assert any(token in warning for warning in prepared.paragraphs[0].warnings)


@pytest.mark.parametrize(
    ("text", "plain"), [("a [my_tag] b", "a my tag b"), ("[nice day] ok", "nice day ok"), ("[[a]] b", "a b")]
)
def test_t9_unknown_tags_become_plain_words_and_the_result_says_so(frontend, text, plain):
    prepared = frontend.prepare(text, SynthesisOptions())
    assert prepared.paragraphs[0].text == plain
    assert any("no control tag" in warning for warning in prepared.paragraphs[0].warnings)


@pytest.mark.parametrize("text", ["What's up", "What\u2019s up", "What\uff07s up"])
def test_t10_apostrophes_inside_words_survive(frontend, text):
    assert ids(frontend, text) == frontend.tokenizer.encode("what's up")


def test_t10_a_voice_without_apostrophe_speaks_the_long_form(engine):
    assert engine.prepare_text("What's up? It's late.").segments[0].text == "What is up?"


@pytest.mark.parametrize(
    "text", ["你好\n世界", "你好\t世界", "你好\r\n世界", "你好\n\n世界", "你好\n世界\n\n", "\n\n你好\n\n\n世界"]
)
def test_t12_separators_keep_words_apart_and_make_no_empty_segment(frontend, text):
    prepared = frontend.prepare(text, SynthesisOptions())
    assert all(segment.text.strip() for segment in prepared.segments)
    assert spoken(frontend, text).split() == ["你好", "世界"]


def test_t13_a_long_text_without_a_mark_is_cut_and_nothing_is_lost(frontend):
    text = "我们走在路上看见一只很大的鸟" * 30
    prepared = frontend.prepare(text, SynthesisOptions())
    assert "".join(segment.text for segment in prepared.segments) == text
    assert max(prepared.tokens) <= 120 < sum(prepared.tokens)


@pytest.mark.parametrize("text", ["I met Dr. Smith in the U.S. on Sunday", "it is 3.14 or so", "圆周率是3.14左右"])
def test_t13_abbreviations_and_numbers_end_no_sentence(frontend, text):
    assert len(frontend.prepare(text, SynthesisOptions()).segments) == 1


@pytest.mark.parametrize("text", ["AI Agent 和 AGI", "陶喆来了", "囧", "ａｂｃ 你好 123 ok?"])
def test_t14_no_unknown_id_reaches_the_model(frontend, text):
    assert frontend.tokenizer.special("[UNK]") not in ids(frontend, text)


def test_t14_a_character_the_tokenizer_lacks_is_spoken_by_a_homophone(tiny_engine):
    audio = tiny_engine.synthesize("陶喆", max_steps=8, seed=0)
    assert audio.text == "陶哲" and any("喆" in warning for warning in audio.warnings)


@pytest.mark.parametrize("text", ["你好", "good 好", "カナ", "ok \U00020bb7"])
def test_t14_text_a_voice_cannot_speak_is_an_error_that_names_it(engine, text):
    with pytest.raises(TextError, match="cannot speak"):
        engine.synthesize(text)


@pytest.mark.parametrize("text", ["a\ud800b", "a\u200bb", "a\u0301b", "a😀b", "\ufeffab", "a\x00b", "a\ue000b"])
def test_t15_odd_characters_are_cleaned(frontend, text):
    assert [c for c in spoken(frontend, text) if c.isascii() and c.isalpha()][-1] == "b"


@pytest.mark.parametrize("text", ["\ud800", "\u200b", "😀", "\u0301", "...", "", "[uv_break]"])
def test_t15_nothing_to_speak_is_one_typed_error(frontend, text):
    with pytest.raises(TextError, match="nothing to speak"):
        frontend.prepare(text, SynthesisOptions())


@pytest.mark.parametrize(
    "data",
    ["你好，世界".encode(codec) for codec in ("utf-8", "utf-8-sig", "utf-16", "gbk", "gb18030")],
    ids=["utf-8", "bom", "utf-16", "gbk", "gb18030"],
)
def test_t16_chinese_files_of_any_usual_encoding_are_read(data):
    assert decode_text(data, "a.txt") == "你好，世界"


def test_t16_an_encoding_that_fits_nothing_is_named():
    with pytest.raises(TextError, match="utf-8"):
        decode_text(b"\xff\xff\xff\x00", "a.txt")


def test_chinese_is_spoken_end_to_end(tiny_engine):
    """With random weights: what counts is that prompts, codes and windows go through."""
    audio = tiny_engine.synthesize("今年4月15日，我们去公园玩吧！好吗？[laugh]", max_steps=12, seed=3)
    assert audio.text == "今年四月十五日，我们去公园玩吧。好吗？[laugh]"
    assert audio.samples.size > 0 and np.isfinite(audio.samples).all()
