"""`trt-tts voices` and `say --voices`."""

import json
import sys

import numpy as np
import pytest
import soundfile

from tests.cli.in_process import trt_tts
from trt_tts import Voice, VoiceSample, read_voices, save_voice

SAMPLE = VoiceSample.from_codes(np.arange(200).reshape(4, 50), "what is said")


@pytest.fixture
def tone(tmp_path):
    file = tmp_path / "录音.wav"
    soundfile.write(file, 0.3 * np.sin(np.arange(2 * 44_100) / 20)[:, None].repeat(2, 1), 44_100)
    return file


def test_a_random_voice_is_kept_listed_shown_and_spoken(tiny_set, tmp_path, tiny_engine):
    file = tmp_path / "voices.toml"
    done = trt_tts("voices", "new", "安娜", "--seed", 42, "-e", tiny_set, cwd=tmp_path)
    assert done.returncode == 0 and "voices.toml" in done.stderr
    assert read_voices(file) == {"安娜": tiny_engine.random_voice(42)}
    text = tiny_engine.random_voice(42).to_string()
    listed = json.loads(trt_tts("voices", "-e", tiny_set, "--json", cwd=tmp_path).stdout)
    assert listed["安娜"]["string"] == text
    assert text in trt_tts("voices", "show", "安娜", cwd=tmp_path).stdout
    shown = json.loads(trt_tts("voices", "show", "安娜", "--json", cwd=tmp_path).stdout)
    assert (shown["kind"], shown["string"]) == ("speaker vector", text)
    said = trt_tts(
        "say", "hello", "--voice", "安娜", "-e", tiny_set, "--seed", 1, "--max-steps", 9, "-o", "a.wav", cwd=tmp_path
    )
    assert said.returncode == 0
    wanted = tiny_engine.synthesize("hello", voice=tiny_engine.random_voice(42), seed=1, max_steps=9)
    assert np.array_equal(soundfile.read(tmp_path / "a.wav", dtype="int16")[0], wanted.pcm16())


def test_without_a_seed_another_voice_each_time(tiny_set, tmp_path):
    for name in ("a", "b"):
        assert trt_tts("voices", "new", name, "-e", tiny_set, cwd=tmp_path).returncode == 0
    found = read_voices(tmp_path / "voices.toml")
    assert found["a"] != found["b"]


def test_a_name_that_hides_a_voice_of_the_set_is_noted(demo_set, tmp_path):
    assert trt_tts("voices", "new", "bella", "-e", demo_set, cwd=tmp_path).returncode == 0
    listed = trt_tts("voices", "-e", demo_set, cwd=tmp_path)
    assert "in both: bella; --voice means the one of voices.toml" in listed.stderr


def test_a_cloned_voice_is_kept_and_spoken(tiny_set, tmp_path, tone, tiny_engine):
    mine = ("-e", tiny_set, "--voices", "my.json")

    def clone(*arguments):
        done = trt_tts("voices", "clone", tone, "--name", "me", *mine, *arguments, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return read_voices(tmp_path / "my.json")["me"]

    samples, rate = soundfile.read(tone, dtype="float32")
    assert clone("--text", "what is said") == tiny_engine.clone_voice(samples, rate, "what is said")
    (tmp_path / "words.txt").write_bytes("今天天气很好".encode("gbk"))
    assert clone("--text-file", "words.txt", "--force").transcript == "今天天气很好"
    said = trt_tts("say", "hello", "--voice", "me", *mine, "--max-steps", 9, "-o", "a.wav", cwd=tmp_path)
    assert said.returncode == 0, said.stderr


@pytest.mark.parametrize("ending", ["txt", "json", "npy"])
def test_a_vector_survives_every_form(tmp_path, ending):
    voice = Voice.from_vector(np.linspace(-2, 2, 64))
    assert trt_tts("voices", "convert", voice.to_string(), "-o", f"v.{ending}", cwd=tmp_path).returncode == 0
    printed = trt_tts("voices", "convert", f"v.{ending}", cwd=tmp_path)
    assert printed.stdout.strip() == voice.to_string()
    assert trt_tts("voices", "convert", f"v.{ending}", "--name", "x", cwd=tmp_path).returncode == 0
    assert read_voices(tmp_path / "voices.toml") == {"x": voice}


def test_a_sample_string_is_taken_in_with_its_words(tmp_path):
    words = ("--text", SAMPLE.transcript)
    assert trt_tts("voices", "convert", SAMPLE.to_string(), *words, "-o", "s.txt", cwd=tmp_path).returncode == 0
    assert trt_tts("voices", "convert", "s.txt", *words, "--name", "x", cwd=tmp_path).returncode == 0
    assert read_voices(tmp_path / "voices.toml") == {"x": SAMPLE}


def test_a_torch_file_is_converted(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save(torch.linspace(-2, 2, 64)[None], tmp_path / "v.pt")
    printed = trt_tts("voices", "convert", "v.pt", cwd=tmp_path)
    assert Voice.from_string(printed.stdout.strip()) == Voice.from_vector(torch.linspace(-2, 2, 64).numpy())
    torch.save({"a": 1}, tmp_path / "w.pt")
    assert "holds a dict" in trt_tts("voices", "convert", "w.pt", cwd=tmp_path).stderr


def test_without_torch_the_command_to_install_it_is_named(tmp_path, monkeypatch):
    (tmp_path / "v.pt").write_bytes(b"x")
    monkeypatch.setitem(sys.modules, "torch", None)
    done = trt_tts("voices", "convert", "v.pt", cwd=tmp_path)
    assert done.returncode == 1 and "install_torch_cpu.py" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["new", ""], 2, "the voice's name"),
        (["new", "anna", "--seed", "-1"], 2, "seed is -1"),
        (["new", "taken"], 2, "--force"),
        (["new", "anna", "--voices", "v.txt"], 2, ".toml or .json"),
        (["show", "nobody"], 1, "no voice named 'nobody'"),
        (["list", "--voices", "absent.toml"], 1, "absent.toml"),
        (["convert", "absent.npy"], 2, "no file"),
        (["convert", "adam"], 2, "no voice string"),
        (["convert", SAMPLE.to_string()], 1, "voices convert --text"),
        (["convert", SAMPLE.to_string(), "--text", "a", "-o", "a.npy"], 2, ".txt"),
        (["convert", Voice.from_vector(np.ones(64)).to_string(), "--text", "a"], 1, "needs no transcript"),
        (["convert", "你好世界"], 1, "voice string"),
        (["convert", "broken.npy"], 1, "broken.npy"),
        (["convert", "broken.pt"], 1, "broken.pt"),
        (["convert", "words.json"], 1, "voice"),
        (["convert", "words.json", "-o", "a.wav"], 2, ".txt, .json, .npy"),
        (["clone", "absent.wav", "--text", "a", "--name", "me"], 2, "no recording"),
        (["clone", "words.json", "--text", "a", "--name", "me"], 2, "no readable sound file"),
        (["clone", "short.wav", "--text", "a", "--name", "me"], 1, "0.50 s"),
        (["clone", "long.wav", "--text", "a", "--name", "me"], 1, "21.00 s"),
        (["clone", "silent.wav", "--text", "a", "--name", "me"], 1, "silent"),
        (["clone", "silent.wav", "--name", "me"], 2, "--text"),
        (["clone", "silent.wav", "--text", "", "--name", "me"], 1, "transcript"),
    ],
)
def test_mistakes_get_one_clear_message_and_leave_nothing(tiny_set, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.setenv("TRT_TTS_ENGINE", str(tiny_set))
    save_voice(tmp_path / "voices.toml", "taken", SAMPLE)
    for name in ("broken.npy", "broken.pt"):
        (tmp_path / name).write_bytes(b"no such thing")
    (tmp_path / "words.json").write_text('["a", "b"]')
    for name, seconds in (("short", 0.5), ("long", 21), ("silent", 2)):
        soundfile.write(tmp_path / f"{name}.wav", np.zeros(round(seconds * 8000)), 8000)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    done = trt_tts("voices", *arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert message in done.stderr and "Traceback" not in done.stderr
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_options_before_the_command_are_no_surprise(tiny_set):
    done = trt_tts("voices", "-e", tiny_set, "show", "adam")
    assert done.returncode == 2 and "after the command" in done.stderr


def test_the_environment_names_the_file(tiny_set, tmp_path, monkeypatch):
    monkeypatch.setenv("TRT_TTS_VOICES", str(tmp_path / "mine.toml"))
    save_voice(tmp_path / "mine.toml", "me", SAMPLE)
    shown = json.loads(trt_tts("voices", "show", "me", "--json").stdout)
    assert shown == {
        "name": "me",
        "kind": "sample",
        "seconds": 1.07,
        "transcript": "what is said",
        "string": SAMPLE.to_string(),
    }
    unknown = trt_tts("say", "hello", "--voice", "nobody", "-e", tiny_set, "-o", tmp_path / "a.wav")
    assert unknown.returncode == 1 and "mine.toml: me" in unknown.stderr
