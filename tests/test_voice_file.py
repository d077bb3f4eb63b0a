"""The user's voices in a file."""

import json
import tomllib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_tts import TrtTtsError, UsageError, Voice, VoiceError, VoiceSample
from trt_tts.voice_file import read_voices, save_voice

ANNA = Voice.from_vector([1.0, 2.0, -3.0])
BOB = VoiceSample.from_codes(np.arange(8).reshape(4, 2), 'he said "好"\nand\x7f left')
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(
    lambda name: name.isprintable() and name == name.strip()
)
both = pytest.mark.parametrize("ending", ["toml", "json"])


@both
def test_voices_are_added_one_by_one_and_read_again(tmp_path, ending):
    file = tmp_path / f"模型 voices.{ending}"
    assert save_voice(file, "anna", ANNA) == file
    save_voice(str(file), "鲍勃 [1]", BOB)
    found = read_voices(file)
    assert list(found) == ["anna", "鲍勃 [1]"]
    assert found["anna"] == ANNA and found["anna"].name == "anna"
    assert found["鲍勃 [1]"] == BOB
    parsed = (tomllib if ending == "toml" else json).loads(file.read_text("utf-8"))
    assert parsed == {
        "anna": {"voice": ANNA.to_string()},
        "鲍勃 [1]": {"sample": BOB.to_string(), "transcript": BOB.transcript},
    }


@both
@settings(max_examples=25)
@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True), seed=st.integers(0, 99))
def test_any_names_survive(tmp_path_factory, ending, names, seed):
    file = tmp_path_factory.mktemp("voices") / f"v.{ending}"
    wanted = {name: Voice.from_vector(np.random.default_rng(seed + i).normal(size=4)) for i, name in enumerate(names)}
    for name, voice in wanted.items():
        save_voice(file, name, voice)
    save_voice(file, names[0], BOB, replace=True)
    assert read_voices(file) == wanted | {names[0]: BOB}


@both
def test_a_name_that_is_taken_is_replaced_only_on_request(tmp_path, ending):
    file = tmp_path / f"v.{ending}"
    save_voice(file, "anna", ANNA)
    before = file.read_bytes()
    with pytest.raises(UsageError, match=r"'anna' already.*--force"):
        save_voice(file, "anna", BOB)
    assert file.read_bytes() == before
    save_voice(file, "anna", BOB, replace=True)
    assert read_voices(file) == {"anna": BOB}


def test_comments_in_a_toml_file_stay(tmp_path):
    file = tmp_path / "v.toml"
    save_voice(file, "anna", ANNA)
    file.write_text("# mine\n" + file.read_text("utf-8") + "\n# below anna\n['bob'] # his\nvoice = 'x'\n", "utf-8-sig")
    save_voice(file, "carl", ANNA)
    assert all(mark in file.read_text("utf-8") for mark in ("# mine", "# below anna", "# his"))
    save_voice(file, "bob", BOB, replace=True)
    text = file.read_text("utf-8")
    assert "# mine" in text and "'x'" not in text
    assert read_voices(file) == {"anna": ANNA, "carl": ANNA, "bob": BOB}


def test_a_file_that_cannot_be_edited_line_by_line_is_written_anew(tmp_path):
    file = tmp_path / "v.toml"
    file.write_text(f'anna.voice = "{ANNA.to_string()}"\n', "utf-8")
    save_voice(file, "anna", BOB, replace=True)
    assert read_voices(file) == {"anna": BOB}


@pytest.mark.parametrize("name", ["", " a", "a ", "a\nb", "\x00", "a" * 65, None, 5])
def test_what_names_no_voice_is_refused(tmp_path, name):
    with pytest.raises(UsageError, match="name"):
        save_voice(tmp_path / "v.toml", name, ANNA)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[anna", "no readable voice file"),
        ("[anna]\n", "'anna': found nothing; allowed: voice"),
        ("[anna]\nvoice = 5\n", "'anna': a voice string is"),
        ("[anna]\nvoice = 'x'\nextra = 1\n", "found voice, extra"),
        ("[anna]\nsample = '你好'\n", "found sample; allowed"),
        ("[anna]\nsample = '你好'\ntranscript = 'a'\n", "voice string"),
        ("anna = 'x'\n", "found str"),
        (f"[anna]\nsample = '{ANNA.to_string()}'\ntranscript = 'a'\n", "speaker string"),
        (f"[anna]\nvoice = '{BOB.to_string()}'\n", "audio-sample string"),
    ],
)
def test_a_damaged_file_is_named_with_the_voice(tmp_path, text, message):
    file = tmp_path / "v.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(VoiceError, match=message) as caught:
        read_voices(file)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '"x"', "[" * 100_000])
def test_json_that_holds_no_tables_is_refused(tmp_path, text):
    file = tmp_path / "v.json"
    file.write_text(text, "utf-8")
    with pytest.raises(VoiceError, match=r"v\.json"):
        read_voices(file)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"\.toml or \.json"):
        read_voices(tmp_path / "v.txt")
    with pytest.raises(VoiceError, match="trt-tts voices new"):
        read_voices(tmp_path / "absent.toml")
    with pytest.raises(TrtTtsError):
        save_voice(tmp_path / "no folder" / "v.toml", "anna", ANNA)
