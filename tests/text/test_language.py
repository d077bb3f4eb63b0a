import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.text.language import language_runs, main_language


@pytest.mark.parametrize(
    ("text", "language"),
    [("hello", "en"), ("", "en"), ("123", "en"), ("你好", "zh"), ("hello 好", "zh"), ("𠮷", "zh"), ("カナ", "en")],
)
def test_a_chinese_character_makes_a_text_chinese(text, language):
    assert main_language(text) == language


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("我住在 New York 很久了", ["New York"]),
        ("我说 I was born in 1998。", [" I was born in 1998"]),
        ("用 Windows Server 2019 系统", ["Windows Server"]),
        ("住了3 years and 5 months", ["3 years and 5 months"]),
        ("GPT-4o 很强", []),
        ("5kg左右", []),
        ("你好，world。good morning，再见", ["good morning"]),
        ("good morning，再见", ["good morning"]),
    ],
)
def test_two_words_are_english_inside_chinese(text, english):
    assert [part.strip() for part, language in language_runs(text, "zh") if language == "en"] == [
        part.strip() for part in english
    ]


@given(st.text(st.sampled_from("ab 你好，。1.5%-A"), max_size=40), st.sampled_from(["en", "zh"]))
def test_the_runs_joined_are_the_text(text, language):
    assert "".join(part for part, _ in language_runs(text, language)) == text
