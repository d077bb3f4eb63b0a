import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.text.symbols import DIGITS, NAMES, as_pauses, tidy

ASCII, CHINESE = set(",.?"), set("，。？、")


@pytest.mark.parametrize(
    ("text", "knows", "pauses"),
    [
        ("no! (really); yes: go", ASCII | CHINESE, "no.  , really, ,  yes,  go"),
        ("好！真的？（是）", ASCII | CHINESE, "好。真的？，是，"),
        ("好！真的？（是）、", ASCII, "好.真的?,是,,"),
        ("no!", CHINESE, "no。 "),
        ("well-known and/or", ASCII, "well known and or"),
        ("no?", set(), "no?"),
    ],
)
def test_marks_become_pauses_the_voice_knows(text, knows, pauses):
    assert as_pauses(text, knows) == pauses


@pytest.mark.parametrize(
    ("text", "tidied"),
    [
        ("no. , really, , yes,  go", "no. really, yes, go"),
        ("what?. ok , .", "what? ok."),
        (", hi", "hi"),
        ("好。真的？，是，", "好。真的？是，"),
        ("...", ""),
        ("U.S. e.g. 3.14", "U.S. e.g. 3.14"),
    ],
)
def test_of_several_marks_the_strongest_stays(text, tidied):
    assert tidy(text) == tidied


@given(st.text(st.sampled_from("ab ,.?，。？、")))
def test_tidying_keeps_the_letters_and_is_done_once(text):
    once = tidy(text)
    assert tidy(once) == once
    assert [c for c in once if c.isalpha()] == [c for c in text if c.isalpha()]


def test_every_name_is_words():
    names = [name for pair in (*NAMES.values(), *DIGITS.values()) for name in pair]
    assert all(name.replace(" ", "").isalpha() for name in names)
