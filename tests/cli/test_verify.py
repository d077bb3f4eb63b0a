"""`trt-tts verify --against` and the gate's table."""

import json
import shutil

import pytest

from tests.cli.in_process import trt_tts
from trt_tts.builders import compare as module
from trt_tts.quality import GATES


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("turn the fan on\nwhere is the red battery?\n", "utf-8")
    return tmp_path / "texts.txt"


@pytest.fixture(autouse=True)
def few_sentences(monkeypatch):
    monkeypatch.setattr(module, "SENTENCES", 2)


def test_two_sets_are_compared_in_a_table(demo_set, demo_int8_set, texts):
    result = trt_tts("verify", demo_int8_set, "--against", demo_set, "--texts", texts)
    assert result.returncode == 0, result.stderr
    for shown in ("top-1 agreement", "KL divergence", "mel-cepstral distortion", "WER", "2 utterances"):
        assert shown in result.stdout
    assert "beyond the limit" not in result.stdout


def test_json_holds_measures_and_verdicts(demo_set, demo_int8_set, texts):
    result = trt_tts("verify", demo_int8_set, "--against", demo_set, "--texts", texts, "--json")
    found = json.loads(result.stdout)
    assert found["passed"] is True
    assert found["quality"]["top1"] > 0.9
    assert {line["measure"] for line in found["gate"]} > {"WER", "mel L1, Np"}


@pytest.mark.slow
def test_a_set_beyond_a_limit_ends_with_code_1_and_the_table(demo_set, demo_int8_set, texts, monkeypatch):
    monkeypatch.setitem(GATES, "int8", GATES["fp32"])
    for pair in ((demo_int8_set, demo_set), (demo_set, demo_int8_set)):
        result = trt_tts("verify", pair[0], "--against", pair[1], "--texts", texts)
        assert result.returncode == 1
        assert "beyond the limit" in result.stdout
        assert "than int8 may be" in result.stderr and "Build with --precision fp32" in result.stderr


def test_a_set_may_stand_where_nothing_can_be_written(demo_int8_set, demo_set, texts):
    """Nothing is written into either set while they are compared."""
    before = {
        path: path.stat().st_mtime_ns for folder in (demo_int8_set, demo_set) for path in (folder, *folder.iterdir())
    }
    assert trt_tts("verify", demo_int8_set, "--against", demo_set, "--texts", texts).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_json_holds_the_builds_gate_too(demo_int8_set):
    found = json.loads(trt_tts("verify", demo_int8_set, "--json").stdout)
    assert found["verified"] is True and found["quality"]["words"]["utterances"] == 25


def test_the_gate_of_the_build_is_shown_by_verify_and_inspect(demo_int8_set):
    for command in ("verify", "inspect"):
        result = trt_tts(command, demo_int8_set)
        assert result.returncode == 0
        assert "Speech compared with fp32" in result.stdout
        assert "25 utterances" in result.stdout


def test_words_are_not_measured_without_the_recogniser(demo_set, demo_int8_set, texts, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    result = trt_tts("verify", demo_int8_set, "--against", demo_set, "--texts", texts)
    assert result.returncode == 0
    assert "WER" in result.stdout and "not measured: pocketsphinx is not installed" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--texts", "texts.txt"), 2, "belong to --against"),
        (("--seeds", 3), 2, "belong to --against"),
        (("--against", "fp32", "--seeds", 0), 2, "seeds"),
        (("--against", "nowhere"), 1, "nowhere"),
        (("--against", "fp32", "--texts", "absent.txt"), 2, "absent.txt"),
        (("--against", "fp32", "--texts", "empty.txt"), 2, "holds no sentence"),
        (("--against", "fp32", "--checkpoint", "absent"), 1, "absent"),
    ],
)
def test_wrong_usage_is_named(demo_int8_set, tmp_path, texts, arguments, code, said):
    (tmp_path / "empty.txt").write_text("")
    result = trt_tts("verify", demo_int8_set, *arguments, cwd=tmp_path)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_sets_of_two_checkpoints_are_not_compared(demo_int8_set, tiny_set):
    result = trt_tts("verify", demo_int8_set, "--against", tiny_set)
    assert result.returncode == 2
    assert "whose files differ" in result.stderr


def test_damage_in_either_set_is_found_first(demo_set, demo_int8_set, tmp_path):
    folder = shutil.copytree(demo_set, tmp_path / "set")
    (folder / "gpt.onnx").write_bytes(b"")
    for pair in ((folder, demo_int8_set), (demo_int8_set, folder)):
        result = trt_tts("verify", pair[0], "--against", pair[1])
        assert result.returncode == 1
        assert "gpt.onnx has 0 bytes" in result.stderr
