import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.text.lines import mark_line_breaks

PROSE = "these are lines that somebody or something wrapped\nwhere they had become too long for the window\nto show."


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Shopping list:\n- milk\n- eggs\n", "Shopping list:\n- milk,\n- eggs"),
        ("To do:\n1. Buy milk\n2. Call Anna!\n3. Go", "To do:\n1, Buy milk.\n2, Call Anna!\n3, Go"),
        ("步骤\n1.打开电脑\n2、登录", "步骤。\n1， 打开电脑。\n2， 登录"),
        ("（1）打开电脑\n（2）登录", "1， 打开电脑。\n2， 登录"),
        ("Roses are red\r\nViolets are blue\u2028Bye", "Roses are red,\nViolets are blue,\nBye"),
        ("床前明月光\n疑是地上霜\n举头望明月", "床前明月光，\n疑是地上霜，\n举头望明月"),
        (f"Chapter One\n{PROSE}", f"Chapter One,\n{PROSE}"),
        ('He said "go"\nand "(stay)"\nfor 5%\nnow', 'He said "go",\nand "(stay)",\nfor 5%,\nnow'),
        ("good morning\n\n\nand good\nnight", "good morning,\nand good,\nnight"),
    ],
)
def test_a_break_on_purpose_is_a_pause(text, wanted):
    assert mark_line_breaks(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        PROSE,
        "turn the\nfan on",
        "你好\n世界",
        "今天天气很好我们一起去公园散步看见很多花还有鸟\n在树上唱歌真是好听极了大家都很开心",
        "hello!\nworld;\nwhat?\n你好。\n世界，\n[laugh]\nmore",
        "there were fifty people who came to the meeting of\n12. May, and more.",
        "3.14 is pi",
        "1.5 litres",
        "2024. It was",
        "",
    ],
)
def test_wrapped_prose_and_what_has_its_marks_stay(text):
    assert mark_line_breaks(text) == text


@given(st.text(st.sampled_from('ab 好12.)、（\n\r\u2028-"”,。%')))
def test_nothing_but_marks_is_added_and_no_word_is_lost(text):
    def words(value):
        return [char for char in value if char.isalnum() or char == "%"]

    assert words(mark_line_breaks(text)) == words(text)
