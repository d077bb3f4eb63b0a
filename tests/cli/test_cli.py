"""The command line as a user meets it: exit codes, messages, what lands where."""

import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import soundfile

from tests.cli import in_process

TEXT = "the engine is ready"


def trt_tts(*arguments, stdin=b"", cwd=None, **environment):
    return subprocess.run(
        [sys.executable, "-m", "trt_tts", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )


def stderr(result):
    return result.stderr.decode("utf-8")


def test_same_seed_same_bytes_other_seed_other_bytes(demo_set, tmp_path):
    for name, seed in (("a", 7), ("b", 7), ("c", 8)):
        result = trt_tts("say", TEXT, "--engine", demo_set, "-o", tmp_path / f"{name}.wav", "--seed", seed)
        assert result.returncode == 0, stderr(result)
        assert "RTF" in stderr(result)
        assert result.stdout == b""
    a, b, c = ((tmp_path / f"{name}.wav").read_bytes() for name in "abc")
    assert a == b != c


def test_int8_set_speaks_too(demo_int8_set, tmp_path):
    assert trt_tts("say", TEXT, "--engine", demo_int8_set, "-o", tmp_path / "a.wav", "--seed", 7).returncode == 0
    samples, rate = soundfile.read(tmp_path / "a.wav")
    assert rate == 24000
    assert 0.3 < samples.size / rate < 3


def test_standard_output_carries_wav_or_raw_samples(demo_set):
    wav = trt_tts("say", "-", "-e", demo_set, "-o", "-", "--seed", 7, stdin=TEXT.encode())
    raw = trt_tts("say", "-", "-e", demo_set, "-o", "-", "--seed", 7, "--format", "raw", stdin=TEXT.encode())
    samples, rate = soundfile.read(io.BytesIO(wav.stdout), dtype="int16")
    assert (rate, samples.ndim) == (24000, 1)
    assert np.array_equal(samples, np.frombuffer(raw.stdout, "<i2"))


@pytest.mark.parametrize("codec", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_files_in_any_unicode_encoding(demo_set, tmp_path, codec):
    (tmp_path / "text.txt").write_bytes(TEXT.encode(codec))
    result = trt_tts("say", "--file", tmp_path / "text.txt", "-e", demo_set, "-o", tmp_path / "a.flac", "--seed", 7)
    assert result.returncode == 0, stderr(result)
    assert (tmp_path / "a.flac").exists()


def test_gbk_file_is_read_and_named(demo_set, tmp_path):
    (tmp_path / "text.txt").write_bytes("你好".encode("gbk"))
    result = trt_tts("say", "--file", tmp_path / "text.txt", "-e", demo_set, "-o", tmp_path / "a.wav")
    assert result.returncode == 1
    assert "GB18030" in stderr(result)
    assert "cannot speak '你'" in stderr(result)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["say"], 2, "--file"),
        (["say", TEXT, "--file", "x"], 2, "--file"),
        (["say", "--file", "absent.txt"], 2, "absent.txt"),
        (["say", TEXT, "-o", "a.mp3"], 2, ".wav"),
        (["say", TEXT, "--speed", "11"], 2, "speed is 11"),
        (["say", TEXT, "--speed", "fast"], 2, "--speed"),
        (["say", TEXT, "--format", "mp3", "-o", "-"], 2, "mp3"),
        (["say", TEXT, "--voice", "carol"], 1, "adam, bella"),
        (["say", "你好"], 1, "'你'"),
        (["say", ""], 1, "nothing to speak"),
        (["say", TEXT, "--engine", "absent"], 1, "trt-tts build"),
        (["say", TEXT, "-o", "absent/a.wav"], 2, "no such folder"),
        (["say", TEXT, "-o", "."], 2, "ending"),
        (["say", TEXT, "--threads", "100000"], 2, "threads is 100000"),
        (["say", "room 好"], 1, "'好'"),
        (["build", "-o", ".", "--force"], 2, "stand in"),
        (["build", "--max-seconds", "inf"], 2, "inf"),
        (["sing"], 2, "sing"),
        (["build", "--precision", "fp8"], 2, "fp32, int8, int4"),
        (["build", "--max-batch", "0"], 2, "max-batch is 0"),
        (["build", "--backend", "abacus"], 2, "abacus"),
        (["build", "--checkpoint", "absent"], 1, "trt-tts fetch"),
        (["export", "--checkpoint", "absent"], 1, "absent"),
        (["inspect", "absent"], 1, "absent"),
        (["voices", "-e", "absent"], 1, "absent"),
    ],
)
def test_mistakes_get_one_clear_message_and_leave_nothing(demo_set, tmp_path, monkeypatch, arguments, code, message):
    monkeypatch.setenv("TRT_TTS_ENGINE", str(demo_set))
    result = in_process.trt_tts(*arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_debug_shows_the_traceback(tmp_path):
    result = trt_tts("say", TEXT, "--engine", "absent", "--debug", cwd=tmp_path)
    assert result.returncode == 1
    assert "Traceback" in stderr(result)
    assert "EngineSetError" in stderr(result)


def test_set_is_chosen_by_option_environment_and_age_and_named(demo_set, demo_int8_set, tmp_path):
    assert "trt-tts build" in stderr(trt_tts("say", TEXT, cwd=tmp_path))
    engines = tmp_path / "engines"
    for name, source, age in (("old", demo_set, 1_000), ("new", demo_int8_set, 2_000)):
        shutil.copytree(source, engines / name)
        os.utime(engines / name / "manifest.json", (age, age))
    shutil.copytree(demo_set, engines / ".half-built")
    (engines / "broken").mkdir()
    (engines / "broken" / "manifest.json").write_text("{}")
    listed = json.loads(trt_tts("inspect", "--json", cwd=tmp_path).stdout)
    assert listed["precision"] == "int8"
    spoken = trt_tts("say", TEXT, "-o", "a.wav", cwd=tmp_path)
    assert "new" in stderr(spoken)
    spoken = trt_tts("say", TEXT, "-o", "a.wav", cwd=tmp_path, TRT_TTS_ENGINE=str(engines / "old"))
    assert "TRT_TTS_ENGINE" in stderr(spoken)


@pytest.mark.slow
def test_export_reports_every_graph(tmp_path):
    from tests.reference_case import REFERENCE

    result = trt_tts("export", "--checkpoint", REFERENCE / "tiny", "-o", tmp_path / "onnx", "--json")
    assert result.returncode == 0, stderr(result)
    reports = {report["name"]: report for report in json.loads(result.stdout)}
    assert set(reports) == {"gpt", "codec", "codec_vq", "text_head", "voice_encoder"}
    assert all(report["error"] < 1e-4 and report["mismatches"] == 0 for report in reports.values())
    assert "named by --checkpoint" in stderr(result)
    assert all((tmp_path / "onnx" / f"{name}.onnx").exists() for name in reports)
    assert "INFO" not in stderr(result), "a library's log reached the user"


def test_inspect_lists_graphs_files_and_hashes(demo_int8_set):
    shown = trt_tts("inspect", demo_int8_set, "--io").stdout.decode()
    manifest = json.loads(trt_tts("inspect", demo_int8_set, "--json").stdout)
    assert "MatMulNBits" in shown
    assert "codes_in" in shown
    assert all(info["sha256"] in shown for info in manifest["files"].values())


def test_voices_lists_names_and_strings(demo_set, engine):
    listed = json.loads(trt_tts("voices", "-e", demo_set, "--json").stdout)
    assert {name: found["string"] for name, found in listed.items()} == {
        name: voice.to_string() for name, voice in engine.voices.items()
    }


def test_doctor_reports_each_part():
    result = trt_tts("doctor", "--json")
    findings = {item["name"]: item for item in json.loads(result.stdout)}
    assert result.returncode == 0
    assert {"Python", "onnxruntime", "tensorrt", "tensorrt_rtx", "NVIDIA GPU", "memory", "disk", "checkpoint"} <= set(
        findings
    )
    assert findings["onnxruntime"]["status"] == "ok"
    assert "demo voice" in findings["checkpoint"]["detail"]


@pytest.mark.parametrize(
    "command", [[], *([name] for name in ("build", "say", "inspect", "voices", "doctor", "export", "fetch"))]
)
def test_help_shows_an_example(command):
    result = trt_tts(*command, "--help")
    assert result.returncode == 0
    assert "trt-tts " in result.stdout.decode()


def test_ascii_only_console_does_not_break(demo_set, tmp_path):
    result = trt_tts("say", "你好", "-e", demo_set, PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert result.returncode == 1
    assert b"Traceback" not in result.stderr


@pytest.mark.parametrize("megabytes", ["0", "-1", "nan", "inf", "1e300"])
def test_a_memory_limit_that_is_none_is_refused_before_anything_is_loaded(megabytes, tmp_path):
    result = trt_tts("say", "one", "--engine", "nowhere", "--memory-limit", megabytes, cwd=tmp_path)
    assert result.returncode == 2
    assert "memory-limit is" in stderr(result) and "allowed: more than 0" in stderr(result)
