"""T13: joined segments equal the input, every one is bounded, and numbers, abbreviations and tags stay whole."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.text.prompt import CONTROL_TAGS
from trt_tts.text.segments import CLAUSE_PAUSE, SENTENCE_PAUSE, split_paragraphs, split_text

PLAIN = 'the engine Dr. U.S. e.g. 3.14 1,234.56 12:30 ready. what? no! yes, 你好 世界。 一二三四五 走， 吗？ "go." … ；'
WORDS = st.sampled_from([*PLAIN.split(), "x" * 45, "9" * 30, *CONTROL_TAGS[:6]])
TEXTS = st.lists(WORDS, min_size=1, max_size=60).map(" ".join) | st.text(
    st.sampled_from("ab .,!?;:你好。，！？…[]'\"）)19-"), max_size=200
)


TAG = re.compile(r"\[[^\[\]]*\]")


def texts_of(text, most=60):
    return [segment.text for segment in split_text(text, len, most)]


def bare(text):
    return re.sub(r"\s+", "", text)


@given(TEXTS, st.integers(12, 80))
def test_joined_segments_equal_the_text_and_each_is_bounded(text, most):
    parts = texts_of(text, most)
    assert bare("".join(parts)) == bare(text)
    place = 0
    for part in parts:
        found = text.find(part, place)
        assert found >= 0 and not text[place:found].strip(), "only white space is between the parts"
        place = found + len(part)
    silent = max(map(len, re.split(r"[^\W_]", TAG.sub(lambda tag: "." * len(tag[0]), text))))
    for part in parts:
        assert part == part.strip() != ""
        tags = max(map(len, TAG.findall(part)), default=0)
        assert len(part) <= max(most, tags) + 2 * silent
    if len(parts) > 1:
        assert all(any(map(str.isalnum, TAG.sub("", part))) for part in parts), "each can be spoken"


@given(TEXTS)
def test_tags_and_numbers_stay_whole(text):
    whole = re.compile(r"\[[^\[\]]*\]|\d+(?:[.,:/\-]\d+)*")
    wanted = [item for item in whole.findall(text) if len(item) <= 40]
    found = [item for part in texts_of(text, 40) for item in whole.findall(part) if len(item) <= 40]
    if all(len(item) <= 40 for item in whole.findall(text)):
        assert found == wanted


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("Good morning. How are you? Fine, thanks!", ["Good morning.", "How are you?", "Fine, thanks!"]),
        ("Dr. Smith lives in the U.S. and pays 3.14 dollars.", ["Dr. Smith lives in the U.S. and pays 3.14 dollars."]),
        ("See J. R. Miller, e.g. at 5 p.m. today. Go now.", ["See J. R. Miller, e.g. at 5 p.m. today.", "Go now."]),
        ("It costs 1,234.56 now. Or 12:30?", ["It costs 1,234.56 now.", "Or 12:30?"]),
        ('He said "stop it." Then left.', ['He said "stop it."', "Then left."]),
        ("今天天气很好。我们走吧！好吗？", ["今天天气很好。", "我们走吧！", "好吗？"]),
        ("他说：“走。”然后离开了。", ["他说：“走。”", "然后离开了。"]),
        ("What?! Really... Yes.", ["What?!", "Really...", "Yes."]),
        ("Ok. Good morning.", ["Ok. Good morning."]),
        ("Good morning. Ok.", ["Good morning.", "Ok."]),
        ("file.txt and www.example.com are names", ["file.txt and www.example.com are names"]),
        ("one [laugh] two. [uv_break] Three four.", ["one [laugh] two.", "[uv_break] Three four."]),
    ],
)
def test_sentences(text, parts):
    assert texts_of(text) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("good morning. … ...", ["good morning. … ..."]),
        ("... good morning. go home now.", ["... good morning.", "go home now."]),
        ("he laughed. [laugh]", ["he laughed. [laugh]"]),
        ("你好吗？……", ["你好吗？……"]),
    ],
)
def test_what_cannot_be_spoken_alone_goes_with_its_neighbour(text, parts):
    assert texts_of(text) == parts


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_nothing_gives_no_segment(text):
    assert split_text(text, len, 50) == ()


def test_long_sentences_are_cut_at_clauses_and_packed():
    text = "first the rain came, then the wind rose, then the lights went out, and then nobody moved at all"
    assert texts_of(text, 45) == [
        "first the rain came, then the wind rose,",
        "then the lights went out,",
        "and then nobody moved at all",
    ]


def test_what_has_no_mark_is_cut_between_words_and_chinese_between_characters():
    assert texts_of("word " * 20, 24) == ["word word word word word"] * 3 + ["word word word word word"]
    chinese = "我们走在路上" * 70
    parts = texts_of(chinese, 50)
    assert "".join(parts) == chinese and max(map(len, parts)) == 50


def test_a_size_of_tokens_bounds_tokens():
    def tokens(text):
        return len(text.split())

    parts = [segment.text for segment in split_text("a b c, d e f, g h i j k l m n", tokens, 4)]
    assert parts == ["a b c,", "d e f,", "g h i j", "k l m n"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one", ["one"]),
        ("one\ntwo", ["one\ntwo"]),
        ("one\n\ntwo\r\n\r\nthree\n \t\n\n四", ["one", "two", "three", "四"]),
        ("\n\none\u2029two\x85\x85three\n\n", ["one", "two", "three"]),
        ("one\n\n***\n\n---\n\ntwo", ["one", "two"]),
        ("...", ["..."]),
        ("", [""]),
        ("\n\n", ["\n\n"]),
    ],
)
def test_paragraphs_end_at_blank_lines(text, parts):
    """T12: no empty part."""
    assert split_paragraphs(text) == parts


def test_pauses_follow_the_marks_and_the_end_has_none():
    text = "the first sentence. " + "a clause that goes on, " * 4 + "and ends here! last one"
    pauses = {segment.text[-6:]: segment.pause for segment in split_text(text, len, 50)}
    assert pauses["tence."] == SENTENCE_PAUSE
    assert pauses["es on,"] == CLAUSE_PAUSE
    assert pauses[" here!"] == SENTENCE_PAUSE
    assert pauses["st one"] == 0
    assert [item.pause for item in split_text("他走了。（真的。）好。", len, 50)] == [SENTENCE_PAUSE, SENTENCE_PAUSE, 0]
