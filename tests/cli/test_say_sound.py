"""`say`: streaming, playing, sampling rates, trimming."""

import io
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import soundfile

from tests.cli import in_process
from tests.test_sinks import playing
from trt_tts.audio import Audio

TEXT = "the engine is ready. good morning. the train is late"


def say(*arguments, cwd=None, stdout=None):
    return in_process.trt_tts("say", *arguments, cwd=cwd, stdout=stdout)


def to_pipe(*arguments, terminal=False):
    """The result, and what went to standard output."""
    with io.TextIOWrapper(io.BytesIO(), "utf-8") as pipe:
        pipe.isatty = lambda: terminal
        result = say(*arguments, "-o", "-", stdout=pipe)
        return result, pipe.buffer.getvalue()


@pytest.fixture(autouse=True)
def _set(demo_set, monkeypatch):
    monkeypatch.setenv("TRT_TTS_ENGINE", str(demo_set))


@pytest.fixture(scope="module")
def spoken(engine):
    return engine.synthesize(TEXT, seed=7)


@pytest.mark.parametrize("options", [[], ["--lookahead", "12"], ["--rate", "16000"]], ids=" ".join)
def test_a1_streaming_gives_the_same_bytes_of_sound(options, tmp_path):
    """A1, and A5: one header."""
    assert say(TEXT, "--seed", 7, "-o", tmp_path / "whole.wav", *options).returncode == 0
    result, data = to_pipe(TEXT, "--seed", 7, "--stream", *options)
    assert result.returncode == 0
    assert data[44:] == (tmp_path / "whole.wav").read_bytes()[44:]
    assert data[:4] == b"RIFF" and data.count(b"RIFF") == 1
    assert "first sound after" in result.stderr


def test_the_stages_of_a_text_are_shown(tmp_path):
    result = say("It costs $5.\n\nGood morning", "--show-text", "-o", tmp_path / "a.wav")
    assert result.returncode == 0
    for shown in ("Paragraph 2", "It costs five dollars.", "Segments", "0.60 s"):
        assert shown in result.stderr


def test_the_stages_of_a_text_that_cannot_be_spoken_are_shown_too(tmp_path):
    result = say("今天是4月15日", "--show-text", "-o", tmp_path / "a.wav")
    assert result.returncode == 1
    assert "This cannot be spoken" in result.stderr and "今天是四月十五日" in result.stderr
    assert not list(tmp_path.iterdir())


def test_streaming_raw_samples_and_into_files(spoken, tmp_path):
    for name in ("a.wav", "a.flac"):
        assert say(TEXT, "--seed", 7, "--stream", "-o", tmp_path / name).returncode == 0
        found, _ = soundfile.read(tmp_path / name, dtype="int16")
        assert np.array_equal(found, spoken.pcm16())
    assert len(list(tmp_path.iterdir())) == 2
    result, data = to_pipe(TEXT, "--seed", 7, "--stream", "--format", "raw")
    assert result.returncode == 0
    assert data == spoken.pcm16().astype("<i2").tobytes()


def test_a7_a_lookahead_says_what_it_costs(engine, tmp_path):
    """A7"""
    result = say("good morning", "--lookahead", 12, "-o", tmp_path / "a.wav")
    wanted = (
        f"lookahead 12: first sound after 14 steps, {engine.lookahead_snr(12):.1f} dB above the difference from exact"
    )
    assert wanted in result.stderr
    assert "steps, exact" in say("good morning", "--lookahead", 200, "-o", tmp_path / "a.wav").stderr


def test_rate_and_trim_change_the_file(spoken, tmp_path, monkeypatch):
    """The demo voice leaves no silence at the ends: what trimming does is tested elsewhere."""
    monkeypatch.setattr(Audio, "trimmed", lambda self: replace(self, samples=self.samples[100:-200]))
    assert say(TEXT, "--seed", 7, "--trim", "--rate", 48_000, "-o", tmp_path / "a.wav").returncode == 0
    found, rate = soundfile.read(tmp_path / "a.wav", dtype="int16")
    assert rate == 48_000
    assert np.array_equal(found, spoken.trimmed().resampled(48_000).pcm16())
    assert say(TEXT, "--seed", 7, "-o", tmp_path / "a.wav").returncode == 0
    assert soundfile.info(tmp_path / "a.wav").frames == len(spoken.samples)


def test_playing_writes_a_file_only_where_one_is_named(spoken, tmp_path, monkeypatch):
    player = playing(monkeypatch)
    assert say(TEXT, "--seed", 7, "--play", cwd=tmp_path).returncode == 0
    assert np.array_equal(np.concatenate(player.heard)[:, 0], spoken.pcm16())
    assert len(player.heard) > 3
    assert list(tmp_path.iterdir()) == []
    assert say(TEXT, "--seed", 7, "--play", "-o", "a.wav", cwd=tmp_path).returncode == 0
    assert np.array_equal(soundfile.read(tmp_path / "a.wav", dtype="int16")[0], spoken.pcm16())


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--stream", "--trim"], 2, "--trim needs the whole sound"),
        (["--play", "--trim"], 2, "--trim needs the whole sound"),
        (["--rate", "7999"], 2, "8000 to 192000"),
        (["--rate", "fast"], 2, "--rate"),
        (["--lookahead", "256"], 2, "lookahead is 256"),
        (["--lookahead", "-1"], 2, "lookahead is -1"),
        (["--format", "mp3", "--stream"], 2, "wav, raw"),
        (["--rate", "191999", "-o", "a.flac"], 2, "multiples of 10"),
        (["--stream", "-o", "absent/a.wav"], 2, "no such folder"),
        (["--stream", "--voice", "carol", "-o", "a.wav"], 1, "adam, bella"),
        (["--play"], 1, "trt-tts[play]"),
        (["--play", "-o", "a.wav"], 1, "trt-tts[play]"),
    ],
)
def test_mistakes_get_one_clear_message_and_leave_nothing(tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    result = say(TEXT, *arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_device_that_fails_is_one_clear_message(tmp_path, monkeypatch):
    playing(monkeypatch, "open")
    result = say(TEXT, "--play", "-o", "a.wav", cwd=tmp_path)
    assert result.returncode == 1
    assert "the sound device cannot play at 24000 Hz" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("stream", [[], ["--stream"]], ids=["whole", "stream"])
def test_no_sound_goes_to_a_terminal(stream):
    result, data = to_pipe(TEXT, *stream, terminal=True)
    assert result.returncode == 2
    assert "binary sound to a terminal; redirect" in result.stderr
    assert data == b""


def running(*arguments, **options):
    command = [sys.executable, "-m", "trt_tts", "say", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_a_reader_that_leaves_ends_it_quietly():
    process = running("good morning. " * 40, "--stream", "-o", "-")
    assert process.stdout.read(1_000)[:4] == b"RIFF"
    process.stdout.close()
    assert process.wait(60) == 1
    said = process.stderr.read().decode()
    process.stderr.close()
    assert "Traceback" not in said and "Exception" not in said and "error" not in said


@pytest.mark.skipif(os.name == "nt", reason="signals of a console are sent otherwise there")
@pytest.mark.parametrize("name", ["SIGINT", "SIGHUP"])
def test_ctrl_c_or_a_closed_terminal_ends_it_quietly_and_leaves_no_file(tmp_path, name):
    number = getattr(signal, name)
    # A test run in the background of a shell ignores these, and so would its children.
    heed = partial(signal.signal, number, signal.default_int_handler)
    process = running("good morning. " * 400, "--stream", "-o", "a.wav", cwd=tmp_path, preexec_fn=heed)
    while not list(tmp_path.iterdir()) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode not in (0, 1)
    assert b"Traceback" not in said and b"Exception" not in said
    assert list(tmp_path.iterdir()) == []
