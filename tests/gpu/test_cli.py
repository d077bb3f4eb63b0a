"""The commands that use a set on a GPU."""

import json

import pytest
import soundfile

from tests.cli.in_process import trt_tts
from trt_tts.gpu.memory import device_total, engine_parts
from trt_tts.manifest import Manifest

pytestmark = pytest.mark.gpu


def test_say_speaks(tiny_trt_set, tmp_path):
    result = trt_tts(
        "say", "two words", "--engine", tiny_trt_set, "--seed", 1, "--max-steps", 20, "-o", tmp_path / "a.wav"
    )
    assert result.returncode == 0, result.stderr
    samples, rate = soundfile.read(tmp_path / "a.wav")
    assert rate == 24_000 and len(samples) > 0


def test_say_finds_the_newest_set_that_runs_here(tiny_trt_set, tmp_path):
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "mine").symlink_to(tiny_trt_set)
    result = trt_tts("say", "one", "--max-steps", 3, "-o", "a.wav", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "the newest in engines" in result.stderr


def test_say_takes_a_memory_limit_in_mb_and_explains_a_short_one(tiny_trt_set, tmp_path):
    result = trt_tts("say", "one", "--engine", tiny_trt_set, "--memory-limit", 1, "-o", tmp_path / "a.wav")
    assert result.returncode == 1
    assert "memory_limit allows 1.0 MB" in result.stderr and "KV cache" in result.stderr
    assert not (tmp_path / "a.wav").exists()


def test_verify_tests_the_set_here(tiny_trt_set):
    result = trt_tts("verify", tiny_trt_set)
    assert result.returncode == 0, result.stderr
    assert "cases within their limits" in result.stdout + result.stderr


def test_bench_counts_calls_and_bytes(tiny_trt_set):
    arguments = ("bench", "--engine", tiny_trt_set, "--rounds", 1, "--steps", 20, "--text", "one")
    found = json.loads(trt_tts(*arguments, "--json").stdout)
    assert found["info"]["backend"] == "tensorrt"
    assert [item["rows"] for item in found["steps"]] == [1, 3]
    assert all(0 < item["driver_calls"] <= 6 for item in found["steps"])
    assert found["card_gbs"] > 0
    shown = trt_tts(*arguments).stdout
    for said in ("driver calls per step", "of the card's", "RTF", "warm-up", "GPU memory"):
        assert said in shown


def test_doctor_names_the_gpu(tiny_trt_set):
    assert "compute capability" in trt_tts("doctor").stdout


def test_plan_of_a_set_is_what_it_takes(tiny_trt_set):
    manifest = Manifest.load(tiny_trt_set)
    parts = engine_parts(manifest.graphs, manifest.config.gpt, manifest.limits)
    found = json.loads(trt_tts("plan", "--engine", tiny_trt_set, "--json").stdout)
    assert found["device"] == device_total(parts)
    assert [item["bytes"] for item in found["parts"]] == [part.bytes for part in parts]
