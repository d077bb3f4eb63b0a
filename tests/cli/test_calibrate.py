import json
import tomllib

import pytest

from tests.cli.in_process import trt_tts
from trt_tts.builders import int8_choice
from trt_tts.builders.calibration_data import CALIBRATION_VERSION


@pytest.mark.slow
def test_calibrate_then_build_and_sabotage_is_caught(tmp_path, monkeypatch):
    """From texts to an INT8 set; then scales that are wrong by a factor of 20."""
    result = trt_tts("calibrate", "--samples", 24, "-o", "c.json", "--report", "r.md", "--json", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert report["spoken"] == 24 and len(report["linears"]) == 20
    assert "| layers.4.mlp.down_proj/MatMul |" in (tmp_path / "r.md").read_text("utf-8")
    built = trt_tts("build", "--precision", "int8", "--calibration", "c.json", "-o", "i8", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    found = json.loads(trt_tts("inspect", "i8", "--json", cwd=tmp_path).stdout)
    kinds = list(found["graphs"]["gpt"]["plan"]["products"].values())
    chosen = tomllib.loads((tmp_path / "i8" / "precision-map.toml").read_text("utf-8")).get("gpt", {})
    assert (kinds.count("int8"), kinds.count("fp16")) == (20 - len(chosen), 11 + len(chosen))
    assert kinds.count("int8") >= 12
    assert found["graphs"]["gpt"]["plan"]["int8_share"] >= 0.75
    assert found["quality"]["top1"] >= 0.955 and found["quality"]["words"]["utterances"] == 25
    checked = trt_tts("verify", "i8", cwd=tmp_path)
    assert checked.returncode == 1, "no card runs it here"
    assert "Speech compared with fp32" in checked.stdout and "top-1 agreement" in checked.stdout
    data = json.loads((tmp_path / "c.json").read_text())
    data["scales"] = {node: 20 * scale for node, scale in data["scales"].items()}
    (tmp_path / "wrong.json").write_text(json.dumps(data))
    monkeypatch.setattr(int8_choice, "MOST_KEPT", 0.1)
    broken = trt_tts("build", "--precision", "int8", "--calibration", "wrong.json", "-o", "bad", cwd=tmp_path)
    assert broken.returncode == 1
    assert "int8 changes this voice too much" in broken.stderr
    assert "beyond the limit" in broken.stdout, "the gate's table"
    assert not (tmp_path / "bad").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--dataset", "nowhere"), "there is no dataset nowhere"),
        (("--dataset", "empty.txt"), "holds 0 distinct texts"),
        (("--dataset", "constant.txt"), "holds 1 distinct texts"),
        (("--dataset", "alike.txt"), "are all alike"),
        (("--method", "mse"), "allowed: percentile, max, entropy"),
        (("--samples", 1), "8 to 4096"),
        (("--seed", -5), "seed is -5"),
        (("-o", "c.json", "--report", "c.json"), "name two files"),
        (("--report", "no/such/r.md"), "cannot write"),
        (("-o", "/proc/c.json"), "cannot write"),
        (("-o", "."), "cannot write"),
        (("-o", "no/such/c.json"), "cannot write"),
    ],
)
def test_wrong_usage_ends_with_code_2_and_writes_nothing(tmp_path, arguments, said):
    texts = {"empty.txt": "", "constant.txt": "the same\n" * 40, "alike.txt": "\n".join(f"go {i}" for i in range(20))}
    for name, content in texts.items():
        (tmp_path / name).write_text(content)
    result = trt_tts("calibrate", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert said in result.stderr
    assert {item.name for item in tmp_path.iterdir()} == set(texts)


def test_the_calibration_of_another_checkpoint_is_refused(tmp_path, tiny):
    other = {"version": CALIBRATION_VERSION, "method": "max", "checkpoint": tiny.hashes, "scales": {"a": 1.0}}
    other |= {"errors": {"a": 0.1}, "smoothing": {}, "sensitivity": {}, "dataset": "", "dataset_sha256": ""}
    (tmp_path / "c.json").write_text(json.dumps(other))
    result = trt_tts("build", "--precision", "int8", "--calibration", "c.json", "-o", "i8", cwd=tmp_path)
    assert result.returncode == 2
    assert "was made from another checkpoint" in result.stderr
    assert [item.name for item in tmp_path.iterdir()] == ["c.json"]
