"""The default calibration texts: enough of them, varied, and clean."""

import re
from pathlib import Path

import pytest

import trt_tts.calibration

FOLDER = Path(trt_tts.calibration.__file__).parent / "corpus"
MINIMUM = {"english.txt": 200, "chinese.txt": 200, "mixed.txt": 50}
LONGEST = 400
TAGS = {"[uv_break]", "[laugh]", "[lbreak]"}
TAG = re.compile(r"\[[^\]]*\]?")
HAN = re.compile(r"[\u4e00-\u9fff]")
LATIN = re.compile(r"[A-Za-z]")


def sentences(name):
    return (FOLDER / name).read_bytes().decode("utf-8").split("\n")[:-1]


def spoken(sentence):
    return TAG.sub(" ", sentence)


def size(sentence):
    """Words and Chinese characters."""
    return len(re.findall(r"[\u4e00-\u9fff]|[A-Za-z']+|[0-9][0-9.,:]*", spoken(sentence)))


def chinese_share(sentence):
    han, latin = len(HAN.findall(spoken(sentence))), len(LATIN.findall(spoken(sentence)))
    return han / (han + latin)


each_file = pytest.mark.parametrize("name", MINIMUM)


def test_the_folder_holds_these_files_only():
    assert {file.name for file in FOLDER.iterdir()} == set(MINIMUM)


@each_file
def test_lines_end_in_lf_and_so_does_the_file(name):
    data = (FOLDER / name).read_bytes()
    assert b"\r" not in data
    assert data.endswith(b"\n")
    assert not data.startswith(b"\xef\xbb\xbf")
    data.decode("utf-8")


@each_file
def test_there_are_enough_sentences(name):
    assert len(sentences(name)) >= MINIMUM[name]


@each_file
def test_no_line_is_empty_padded_or_too_long(name):
    for sentence in sentences(name):
        assert sentence == sentence.strip()
        assert size(sentence) > 0, sentence
        assert len(sentence) <= LONGEST, sentence
        assert sentence.isprintable(), sentence


def test_no_sentence_occurs_twice():
    plain = [re.sub(r"[\W_]+", "", spoken(text)).lower() for name in MINIMUM for text in sentences(name)]
    assert sorted(plain) == sorted(set(plain))


def test_english_is_english():
    assert all(chinese_share(sentence) == 0 for sentence in sentences("english.txt"))


def test_about_half_of_english_is_plain_text():
    plain = [text for text in sentences("english.txt") if re.fullmatch(r"[A-Za-z .,?!']+", text)]
    assert 0.4 < len(plain) / len(sentences("english.txt")) < 0.7


def test_chinese_is_chinese():
    assert all(chinese_share(sentence) > 0.5 for sentence in sentences("chinese.txt"))
    pure = [text for text in sentences("chinese.txt") if chinese_share(text) == 1]
    assert len(pure) > 0.95 * len(sentences("chinese.txt"))


def test_every_mixed_sentence_holds_both():
    shares = [chinese_share(sentence) for sentence in sentences("mixed.txt")]
    assert all(0 < share < 1 for share in shares)
    assert 0.3 < sum(shares) / len(shares) < 0.8


@each_file
def test_only_the_three_tags_stand_in_brackets(name):
    text = "\n".join(sentences(name))
    assert set(TAG.findall(text)) == TAGS
    assert not set("[]") & set(TAG.sub("", text))


@each_file
def test_kinds_of_sentence_occur(name):
    found = sentences(name)
    kinds = {
        "digits": [text for text in found if re.search(r"[0-9]", text)],
        "questions": [text for text in found if re.search(r"[?\uff1f]", text)],
        "exclamations": [text for text in found if re.search(r"[!\uff01]", text)],
        "tags": [text for text in found if TAG.search(text)],
        "no tags": [text for text in found if not TAG.search(text)],
    }
    assert all(len(texts) >= 10 for texts in kinds.values()), {kind: len(texts) for kind, texts in kinds.items()}


@each_file
def test_short_and_long_sentences_occur(name):
    sizes = [size(sentence) for sentence in sentences(name)]
    assert sum(length <= 6 for length in sizes) >= 5
    assert sum(length >= 25 for length in sizes) >= 5
    assert max(sizes) >= 50
