"""`trt-tts bench` on the CPU; tests/gpu/test_cli.py has it on a GPU."""

import json

import pytest

from tests.cli.in_process import trt_tts
from trt_tts.bench import step_bytes
from trt_tts.manifest import Manifest


def test_bench_measures_a_set_for_the_cpu(tiny_set):
    arguments = ("bench", "--engine", tiny_set, "--rounds", 1, "--steps", 10, "--text", "one")
    found = json.loads(trt_tts(*arguments, "--json").stdout)
    assert found["info"]["backend"] == "cpu"
    assert [item["rows"] for item in found["steps"]] == [1, 3]
    for item in found["steps"]:
        assert item["driver_calls"] is None
        assert item["steps_per_second"] == pytest.approx(1000 / item["milliseconds"])
        assert item["gbs"] == pytest.approx(item["bytes"] / item["milliseconds"] / 1e6)
    shown = trt_tts(*arguments)
    assert shown.returncode == 0, shown.stderr
    assert "steps/s per row" in shown.stdout and "GPU memory" not in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--rounds", 0), 2, "rounds is 0"),
        (("--steps", 0), 2, "steps is 0"),
        (("--context", 5000), 2, "do not fit this set's"),
        (("--device", -1), 2, "device"),
    ],
)
def test_bench_refuses_what_the_set_cannot_hold(tiny_set, arguments, code, said):
    result = trt_tts("bench", "--engine", tiny_set, *arguments)
    assert result.returncode == code
    assert said in result.stderr


def test_a_step_reads_weights_once_and_the_cache_of_every_row(tiny_set):
    manifest = Manifest.load(tiny_set)
    gpt = manifest.config.gpt
    cache = 2 * gpt.num_hidden_layers * gpt.hidden_size * 4
    assert step_bytes(manifest, 3, 100) - step_bytes(manifest, 1, 100) == 200 * cache
    assert step_bytes(manifest, 1, 0) < manifest.graphs["gpt"].weight_bytes["float32"]
