from types import SimpleNamespace

import pytest

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.ranges import record
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import feeds_of, speak_samples
from trt_tts.calibration import sensitivity
from trt_tts.calibration.sensitivity import measure_sensitivity

NAMES = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")


@pytest.fixture(scope="module")
def parts(tiny, tiny_set):
    """Reference, speech, and a calibration by the largest values."""
    import onnx

    file = tiny_set / "gpt.onnx"
    spoken = speak_samples(tiny, tiny_set, file, most=2)
    peaks = record(file, feeds_of("gpt", tiny, spoken, []))
    graph = onnx.load(file, load_external_data=False).graph
    inputs = {node.name: node.input[0] for node in graph.node}
    linears = [f"layers.{i}.{name}/MatMul" for i in range(tiny.config.gpt.num_hidden_layers) for name in NAMES]
    scales = {node: peaks[inputs[node]] / 127 for node in linears}
    calibration = Calibration("max", tiny.hashes, scales, dict.fromkeys(scales, 0.01))
    return Reference(tiny, tiny.hashes, tiny_set, file, tiny_set / "codec.onnx"), spoken, calibration


@pytest.mark.slow
def test_damage_is_ranked_and_a_ruined_scale_comes_first(parts, tmp_path):
    reference, spoken, calibration = parts
    ruined = "layers.1.mlp.gate_up_proj/MatMul"
    calibration.scales[ruined] *= 40
    try:
        found = measure_sensitivity(reference, reference.gpt, calibration, spoken, tmp_path, lambda stage: None)
    finally:
        calibration.scales[ruined] /= 40
    damage = {item.place: item.kl for item in found}
    assert list(damage.values()) == sorted(damage.values(), reverse=True)
    single = [item.place for item in found if item.place in calibration.scales]
    assert single[0] == ruined
    assert damage[ruined] > 10 * damage[single[1]]
    for group in ("layers.1", "mlp.gate_up_proj"):
        assert damage[group] > 0.5 * damage[ruined]


def test_only_one_place_at_a_time_is_int8(parts, tmp_path, monkeypatch):
    reference, spoken, calibration = parts
    typed = []
    original = sensitivity.write_typed
    monkeypatch.setattr(sensitivity, "write_typed", lambda *args: typed.append(original(*args)) or typed[-1])
    monkeypatch.setattr(sensitivity, "write_simulation", lambda file, target: target)
    quality = SimpleNamespace(kl=0.0, top1=1.0, hidden_snr_db=50.0)
    monkeypatch.setattr(sensitivity, "Judge", lambda *_: SimpleNamespace(measure=lambda file: quality))
    found = measure_sensitivity(reference, reference.gpt, calibration, spoken, tmp_path, lambda stage: None)
    expected = [{node} for node in calibration.scales]
    expected += [{node for node in calibration.scales if node.startswith(f"layers.{i}.")} for i in range(2)]
    expected += [{node for node in calibration.scales if f".{name}/" in node} for name in NAMES]
    made = [set(item.int8) for item in typed]
    assert sorted(map(sorted, made)) == sorted(map(sorted, expected))
    assert sorted(item.linears for item in found) == sorted(map(len, expected))
