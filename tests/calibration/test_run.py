import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.conftest import export_by_copying
from trt_tts.builders.calibration_data import load_calibration
from trt_tts.builders.samples import TEXTS, forced_feed
from trt_tts.calibration import run
from trt_tts.calibration.dataset import Dataset
from trt_tts.calibration.run import CalibrationRequest, run_calibration
from trt_tts.cpu.session import open_session
from trt_tts.errors import UsageError

WORDS = [
    "engine",
    "voice",
    "card",
    "memory",
    "graph",
    "kernel",
    "stream",
    "buffer",
    "speech",
    "sound",
    "model",
    "layer",
]
DATASET = Dataset("words", tuple(f"the {word} is ready" for word in WORDS))


@pytest.fixture(autouse=True)
def exported_before(tiny_set, monkeypatch):
    """The graph of the CPU set stands for a fresh export."""

    monkeypatch.setattr(run, "export_graph", export_by_copying(tiny_set))
    monkeypatch.setattr(run, "STEPS", 24)


def calibrate(checkpoint, dataset=DATASET, **options):
    stages = []
    return run_calibration(checkpoint, dataset, CalibrationRequest(samples=8, **options), stages.append), stages


@pytest.mark.parametrize("method", ["max", "percentile", "entropy"])
def test_every_linear_of_every_layer_gets_a_scale(tiny, method):
    found, stages = calibrate(tiny, method=method)
    assert len(found.calibration.scales) == 4 * tiny.config.gpt.num_hidden_layers
    assert all(0 < scale < 10 for scale in found.calibration.scales.values())
    assert found.spoken == 8
    assert "reading activations 8/8" in stages
    for item in found.linears:
        assert item.threshold <= item.largest
        assert found.calibration.scales[item.node] == pytest.approx(item.threshold / 127)


def test_largest_values_equal_a_pass_of_ones_own(tiny, tiny_set, tmp_path, monkeypatch):
    """Against the same tensors, fetched in another way."""
    kept = []
    original = run.collect_inputs
    monkeypatch.setattr(run, "collect_inputs", lambda *args: kept.append(args) or original(*args))
    found, _ = calibrate(tiny, method="max", smooth=False)
    (_, _, spoken, _) = kept[0]
    shutil.copytree(tiny_set, tmp_path / "set")
    model = onnx.load(tmp_path / "set" / "gpt.onnx", load_external_data=False)
    node = next(item for item in model.graph.node if item.name == "layers.1.mlp.down_proj/MatMul")
    model.graph.output.append(onnx.helper.make_tensor_value_info(node.input[0], onnx.TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "set" / "gpt.onnx")
    session = open_session(tmp_path / "set" / "gpt.onnx", 1)
    gpt = tiny.config.gpt
    feeds = [forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers) for item in spoken]
    largest = max(float(np.abs(session.run([node.input[0]], feed)[0]).max()) for feed in feeds)
    assert found.calibration.scales[node.name] == pytest.approx(largest / 127, rel=1e-5)


def test_smoothing_lowers_the_errors_and_its_factors_are_kept(tiny):
    plain, smooth = (calibrate(tiny, smooth=smooth)[0] for smooth in (False, True))
    assert plain.calibration.smoothing == {}
    assert {item.strength for item in plain.linears} == {0.0}
    smoothed = {item.node for item in smooth.linears if item.strength}
    assert smoothed == set(smooth.calibration.smoothing) and smoothed
    for node, factors in smooth.calibration.smoothing.items():
        assert len(factors) in (tiny.config.gpt.hidden_size, tiny.config.gpt.intermediate_size), node
        assert all(1e-3 < factor < 1e3 for factor in factors)
    total = {name: sum(item.error for item in found.linears) for name, found in (("plain", plain), ("smooth", smooth))}
    assert total["smooth"] < total["plain"]


def test_judged_texts_are_not_calibrated_on(tiny, monkeypatch):
    heard = []
    original = run.speak
    monkeypatch.setattr(run, "speak", lambda *args, **options: heard.extend(args[3]) or original(*args, **options))
    calibrate(tiny, Dataset("mixed", (*TEXTS, *DATASET.texts)), smooth=False)
    assert set(heard) == set(DATASET.texts) - set(TEXTS)


@pytest.mark.slow
def test_sensitivity_is_measured_for_every_linear_and_kept(tiny, tmp_path):
    found, stages = calibrate(tiny, sensitivity=True)
    assert set(found.calibration.sensitivity) == set(found.calibration.scales)
    places = [item.place for item in found.sensitivity]
    assert {"layers.0", "layers.1", "mlp.down_proj", "self_attn.qkv_proj"} < set(places)
    assert "measuring INT8 in one place 1/14" in stages
    found.calibration.save(tmp_path / "c.json")
    assert load_calibration(tmp_path / "c.json", tiny) == found.calibration


def test_same_seed_same_scales_other_seed_others(tiny):
    first, again, other = (calibrate(tiny, seed=seed)[0].calibration.scales for seed in (0, 0, 1))
    assert first == again != other


def test_file_round_trips_and_belongs_to_its_checkpoint(tiny, tmp_path):
    found, _ = calibrate(tiny)
    found.calibration.save(tmp_path / "c.json")
    assert load_calibration(tmp_path / "c.json", tiny) == found.calibration
    other = replace(tiny, hashes={**tiny.hashes, "asset/Embed.safetensors": "0" * 64})
    with pytest.raises(UsageError, match="another checkpoint"):
        load_calibration(tmp_path / "c.json", other)


@pytest.mark.slow
def test_texts_that_the_voice_cannot_speak_are_skipped_and_counted(demo, demo_set, monkeypatch):
    monkeypatch.setattr(run, "export_graph", export_by_copying(demo_set))
    texts = (*DATASET.texts, *(f"{i} 苹果" for i in range(4)))
    found = run_calibration(demo, Dataset("x", texts), CalibrationRequest(samples=12), lambda stage: None)
    assert found.spoken == 12
    assert 1 <= found.skipped <= 4
    with pytest.raises(UsageError, match="can speak only 0 of the texts"):
        run_calibration(
            demo, Dataset("y", tuple(f"{i} 苹果" for i in range(20))), CalibrationRequest(samples=8), lambda stage: None
        )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"method": "mse"}, "'mse'"),
        ({"samples": 3}, "8 to 4096"),
        ({"samples": 5000}, "5000"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_wrong_requests_name_the_value(wrong, said):
    with pytest.raises(UsageError, match=said):
        CalibrationRequest(**wrong)
