"""GPU sets on the command line of a machine without a GPU."""

import json
import shutil

import pytest

from tests.cli.in_process import trt_tts


@pytest.mark.parametrize("batch", [1, 4])
def test_plan_shows_every_part_and_the_bound(batch):
    result = trt_tts("plan", "--card", "gtx1650", "--precision", "fp16", "--max-batch", batch)
    assert result.returncode == 0, result.stderr
    shown = result.stdout
    for part in ("CUDA context", "gpt weights", "codec weights", "KV cache", "activations", "reserve", "total"):
        assert part in shown
    assert "not a measurement" in shown
    assert "unverified for tensorrt" in result.stderr


def test_plan_as_json_adds_up():
    found = json.loads(trt_tts("plan", "--card", "GTX 1650", "--max-batch", 4, "--json").stdout)
    assert found["total"] == sum(part["bytes"] for part in found["parts"] if part["resident"])
    assert found["fits"] and found["limits"]["capacity"] == 2048
    assert found["card"]["memory_mib"] == 4095.75


def test_plan_over_budget_fails_and_names_what_fits():
    result = trt_tts("plan", "--card", "gtx1650", "--precision", "fp16", "--max-batch", 64)
    assert result.returncode == 1
    assert "KV cache" in result.stdout
    assert "What fits: --max-batch 18" in result.stderr and "--max-seconds 6" in result.stderr
    retry = trt_tts("plan", "--card", "gtx1650", "--precision", "fp16", "--max-batch", 18)
    assert retry.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--card", "gtx1651"), "did you mean gtx1650"),
        (("--precision", "int4"), "allowed: fp32, fp16, int8"),
        (("--max-batch", 0), "allowed: 1 to 64"),
        (("--max-seconds", 200), "at most 82"),
        (("--checkpoint", "nowhere"), "nowhere"),
    ],
)
def test_plan_refuses_wrong_usage(arguments, said, tmp_path):
    result = trt_tts("plan", *arguments, cwd=tmp_path)
    assert result.returncode in (1, 2)
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_presets_are_listed():
    shown = trt_tts("plan", "--cards").stdout
    assert "gtx1650_super" in shown and "128.1" in shown


def test_inspect_shows_plans_memory_and_that_no_card_has_run_them(demo_gpu_set):
    result = trt_tts("inspect", demo_gpu_set, "--nodes")
    assert result.returncode == 0, result.stderr
    shown = result.stdout
    assert "decode-2048" in shown and "31 fp16" in shown
    assert "layers.0.mlp.down_proj/MatMul" in shown
    assert "not verified on a card" in result.stderr
    found = json.loads(trt_tts("inspect", demo_gpu_set, "--json").stdout)
    assert {line["part"] for line in found["memory"]} > {"gpt weights", "activations"}


@pytest.mark.parametrize("command", ["say", "verify"])
def test_a_set_for_a_card_says_why_it_cannot_run_here(demo_gpu_set, tmp_path, command):
    arguments = ("say", "hello", "-e", demo_gpu_set) if command == "say" else ("verify", demo_gpu_set)
    result = trt_tts(*arguments, cwd=tmp_path)
    assert result.returncode == 1
    assert "no NVIDIA GPU answers on this machine" in result.stderr
    assert "trt-tts build --backend cpu" in result.stderr
    assert not list(tmp_path.iterdir())


def test_a_damaged_plan_is_found_before_anything_else(demo_gpu_set, tmp_path):
    folder = shutil.copytree(demo_gpu_set, tmp_path / "set")
    (folder / "gpt.plan").write_bytes(b"")
    for command in ("inspect", "verify"):
        result = trt_tts(command, folder)
        assert result.returncode == 1
        assert "gpt.plan has 0 bytes, expected" in result.stderr


def test_a_cpu_set_is_verified_by_speaking(demo_int8_set):
    result = trt_tts("verify", demo_int8_set, "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["verified"] is True


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--card", "gtx1650", "--precision", "fp32"), 2, "compute capability 7.5"),
        (("--card", "gtx1650", "--precision", "int8"), 2, "trt-tts calibrate --dataset"),
        (("--backend", "cpu", "--precision", "fp16"), 2, "--backend tensorrt"),
        (("--precision", "int4", "--card", "gtx1650"), 2, "CPU only"),
        (("--tensorrt", "tensorrt", "--card", "gtx1650"), 1, 'pip install "tensorrt>='),
        (("--card", "gtx1650", "--precision-map", "none.toml"), 2, "none.toml"),
        (("--precision-map", "none.toml"), 2, "none.toml"),
        (("--device", -1), 2, "device"),
    ],
)
def test_build_refuses_what_cannot_be_built(arguments, code, said, tmp_path):
    result = trt_tts("build", *arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_build_with_no_other_argument_makes_a_set_for_the_default_card(tmp_path):
    (tmp_path / "map.toml").write_text('[codec]\n"*.head.out/MatMul" = "fp16"\n')
    result = trt_tts(
        "build", "--precision", "fp16", "--max-batch", 4, "--precision-map", "map.toml", cwd=tmp_path
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "engines/gtx1650-fp16"
    assert "it cannot run here" in result.stderr
    assert "trt-tts verify engines/gtx1650-fp16" in result.stderr
    again = trt_tts("build", "--precision", "fp16", "--max-batch", 4, cwd=tmp_path)
    assert again.returncode == 2 and "--force" in again.stderr
