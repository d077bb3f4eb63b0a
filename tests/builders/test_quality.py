from dataclasses import replace

import numpy as np
import onnx
import pytest

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.quality import Judge
from trt_tts.builders.ranges import record
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import feeds_of, forced_feed, speak_samples
from trt_tts.builders.speech_distance import log_mel
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.cpu.session import open_session

NAMES = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")


@pytest.fixture(scope="module")
def spoken(tiny, tiny_set, tiny_exports):
    return speak_samples(tiny, tiny_set, tiny_exports / "gpt.onnx", most=3)


@pytest.fixture(scope="module")
def peaks(tiny, tiny_exports, spoken):
    return record(tiny_exports / "gpt.onnx", feeds_of("gpt", tiny, spoken, []))


@pytest.fixture
def request_(tiny, peaks, tiny_exports):
    """INT8 with scales from the peaks; the first layer's down projection is said to suffer most."""
    graph = onnx.load(tiny_exports / "gpt.onnx", load_external_data=False).graph
    nodes = {node.name: node.input[0] for node in graph.node}
    layers = range(tiny.config.gpt.num_hidden_layers)
    linears = [f"layers.{i}.{name}/MatMul" for i in layers for name in NAMES]
    scales = {name: peaks[nodes[name]] / 127 for name in linears}
    errors = {name: 0.5 if "down" in name and "layers.0" in name else 0.01 for name in linears}
    return TypeRequest("int8", PrecisionMap(), Calibration("max", {}, scales, errors), 256, fp32_products=False)


@pytest.fixture(scope="module")
def reference(tiny, tiny_set, tiny_exports):
    return Reference(tiny, tiny.hashes, tiny_set, tiny_exports / "gpt.onnx", tiny_set / "codec.onnx")


@pytest.fixture(scope="module")
def judge(reference, spoken):
    return Judge(reference, spoken)


def test_a_graph_agrees_with_itself(judge, reference, spoken):
    found = judge.measure(reference.gpt)
    assert (found.top1, found.hidden_snr_db, found.mel_l1, found.mcd_db) == (1.0, 200.0, 0.0, 0.0)
    assert found.kl == pytest.approx(0, abs=1e-12)
    assert found.positions == sum(len(item.codes) for item in spoken)
    assert found.words is None


def test_the_likeliest_code_is_what_greedy_decoding_would_draw(tiny, reference, spoken):
    """Against the sampler inside the graph: the last position of a forced pass, with greedy noise."""
    gpt, item = tiny.config.gpt, spoken[0]
    session = open_session(reference.gpt, 1)
    feed = forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers)
    codes, hidden = session.run(["codes", "hidden"], feed)
    judge = Judge(reference, [item])
    (found,) = judge.wanted
    assert np.abs(found[-1] - hidden[0]).max() < 1e-4
    assert np.array_equal(judge.log_probabilities(found)[-1].argmax(-1), codes[0])


def test_heads_and_norm_are_the_checkpoints(tiny, judge):
    embed = tiny.tensors["embed"]
    assert np.array_equal(judge.norm, tiny.tensors["gpt"]["norm.weight"])
    assert np.array_equal(judge.heads, np.stack([embed[f"head_code.{i}.weight"] for i in range(4)]))


def test_heads_are_found_where_a_norm_shares_its_constant(reference, spoken, tmp_path):
    model = onnx.load(reference.gpt)
    for node in model.graph.node:
        if node.name == "norm/Mul":
            node.input[1] = "layers.0.input_layernorm.weight"
    (gone,) = [tensor for tensor in model.graph.initializer if tensor.name == "norm.weight"]
    model.graph.initializer.remove(gone)
    onnx.save(model, tmp_path / "shared.onnx")
    assert Judge(replace(reference, gpt=tmp_path / "shared.onnx"), spoken[:1]).wanted[0].shape[1] == 64


def test_measures_equal_a_restatement_on_known_hidden_states(judge, monkeypatch):
    """KL and top-1 from probabilities written out, sound from the codec's own result."""
    random = np.random.default_rng(0)
    moved = [hidden + random.normal(0, 0.3, hidden.shape).astype(np.float32) for hidden in judge.wanted]
    monkeypatch.setattr(judge, "hidden", lambda file: iter(moved))
    found = judge.measure("anything")
    divergence, same, mel = [], [], []
    for wanted, value in zip(judge.wanted, moved, strict=True):
        p, q = (np.exp(logits(judge, item)) for item in (wanted, value))
        p, q = (item / item.sum(-1, keepdims=True) for item in (p, q))
        divergence.append((p * np.log(p / q)).sum(-1))
        same.append(p.argmax(-1) == q.argmax(-1))
        mel.append(np.abs(log_mel(judge.sound(wanted)) - log_mel(judge.sound(value))).mean())
    assert found.kl == pytest.approx(np.concatenate(divergence).mean(), rel=1e-5)
    assert found.top1 == pytest.approx(np.concatenate(same).mean())
    assert found.mel_l1 == pytest.approx(np.mean(mel), rel=1e-6)
    noise, power = (
        np.concatenate([a - b for a, b in zip(moved, judge.wanted, strict=True)]),
        np.concatenate(judge.wanted),
    )
    assert found.hidden_snr_db == pytest.approx(10 * np.log10((power**2).sum() / (noise**2).sum()), abs=0.06)


def logits(judge, hidden):
    """[T, codebooks, codes] in double precision."""
    return np.stack([hidden.astype(np.float64) @ head.T.astype(np.float64) for head in judge.heads], axis=1)


def test_int8_is_further_away_than_fp16(judge, reference, tmp_path, peaks, request_):
    found = {}
    for precision in ("fp16", "int8"):
        wanted = TypeRequest(precision, PrecisionMap(), request_.calibration, 256, fp32_products=False)
        typed = write_typed("gpt", reference.gpt, tmp_path, wanted, peaks)
        simulation = write_simulation(typed.file, tmp_path / f"{precision}-simulation.onnx")
        found[precision] = judge.measure(simulation, simulated=True)
    assert found["fp16"].hidden_snr_db > found["int8"].hidden_snr_db + 10
    assert found["fp16"].kl < found["int8"].kl
    assert found["fp16"].mel_l1 < found["int8"].mel_l1
    assert found["fp16"].mcd_db < found["int8"].mcd_db
    assert found["fp16"].top1 > 0.98
    assert found["int8"].simulated
