from types import SimpleNamespace

import numpy as np
import pytest

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.int8_choice import type_for_int8
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.quality import Agreement, Judge
from trt_tts.builders.ranges import record
from trt_tts.builders.samples import feeds_of, speak_samples
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.errors import BuildError

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
    import onnx

    graph = onnx.load(tiny_exports / "gpt.onnx", load_external_data=False).graph
    nodes = {node.name: node.input[0] for node in graph.node}
    layers = range(tiny.config.gpt.num_hidden_layers)
    linears = [f"layers.{i}.{name}/MatMul" for i in layers for name in NAMES]
    scales = {name: peaks[nodes[name]] / 127 for name in linears}
    errors = {name: 0.5 if "down" in name and "layers.0" in name else 0.01 for name in linears}
    return TypeRequest("int8", PrecisionMap(), Calibration("max", {}, scales, errors), 256, fp32_products=False)


def test_a_graph_agrees_with_itself(tiny, tiny_exports, spoken):
    found = Judge(tiny, tiny_exports / "gpt.onnx", spoken).agreement(tiny_exports / "gpt.onnx")
    assert (found.top1, found.hidden_snr_db) == (1.0, 200.0)
    assert found.kl == pytest.approx(0, abs=1e-12)
    assert found.positions == sum(len(item.codes) for item in spoken)


def test_the_likeliest_code_is_what_greedy_decoding_would_draw(tiny, tiny_exports, spoken):
    """Against the sampler inside the graph: the last position of a forced pass, with greedy noise."""
    from trt_tts.builders.samples import forced_feed
    from trt_tts.cpu.session import open_session

    gpt, item = tiny.config.gpt, spoken[0]
    session = open_session(tiny_exports / "gpt.onnx", 1)
    feed = forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers)
    codes, hidden = session.run(["codes", "hidden"], feed)
    judge = Judge(tiny, tiny_exports / "gpt.onnx", [item])
    (found,) = judge.wanted
    assert np.abs(found[-1] - hidden[0]).max() < 1e-4
    assert np.array_equal(judge.log_probabilities(found)[-1].argmax(-1), codes[0])


def test_int8_is_further_away_than_fp16(tiny, tiny_exports, tmp_path, spoken, peaks, request_):
    found = {}
    for precision in ("fp16", "int8"):
        wanted = TypeRequest(precision, PrecisionMap(), request_.calibration, 256, fp32_products=False)
        typed = write_typed("gpt", tiny_exports / "gpt.onnx", tmp_path, wanted, peaks)
        simulation = write_simulation(typed.file, tmp_path / f"{precision}-simulation.onnx")
        found[precision] = Judge(tiny, tiny_exports / "gpt.onnx", spoken).agreement(simulation)
    assert found["fp16"].hidden_snr_db > found["int8"].hidden_snr_db + 10
    assert found["fp16"].kl < found["int8"].kl
    assert found["fp16"].top1 > 0.98


def choose(tiny_exports, tmp_path, request_, answers):
    """Run the choice with the agreement of each try given."""
    left = iter(answers)
    judge = SimpleNamespace(agreement=lambda simulation: next(left))
    return type_for_int8(judge, tiny_exports / "gpt.onnx", tmp_path, request_, {}, lambda stage: None)


GOOD, BAD = Agreement(0.97, 0.003, 25.0, 99), Agreement(0.90, 0.05, 15.0, 99)


def test_the_worst_linear_is_left_out_first(tiny_exports, tmp_path, request_):
    typed, found = choose(tiny_exports, tmp_path, request_, [BAD, GOOD])
    assert found is GOOD
    assert typed.products["layers.0.mlp.down_proj/MatMul"] == "fp16"
    assert len(typed.int8) == len(request_.calibration.scales) - 1


def test_none_is_left_out_where_all_may_be_int8(tiny_exports, tmp_path, request_):
    typed, _ = choose(tiny_exports, tmp_path, request_, [GOOD])
    assert set(typed.int8) == set(request_.calibration.scales)


def test_a_voice_that_does_not_survive_fails_with_what_was_tried(tiny_exports, tmp_path, request_):
    with pytest.raises(BuildError, match=r"95\.5% top-1.*0 kept: top-1 90\.0%.*3 kept"):
        choose(tiny_exports, tmp_path, request_, [BAD] * 9)


def test_a_pin_of_the_user_outranks_the_choice(tiny_exports, tmp_path, request_):
    from dataclasses import replace

    pinned = replace(request_, rules=PrecisionMap((("layers.0.mlp.down_proj/MatMul", "int8"),)))
    typed, _ = choose(tiny_exports, tmp_path, pinned, [BAD, GOOD])
    assert typed.products["layers.0.mlp.down_proj/MatMul"] == "int8"
