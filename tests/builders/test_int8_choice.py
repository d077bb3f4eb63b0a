from dataclasses import replace
from types import SimpleNamespace

import onnx
import pytest

from trt_tts.builders import int8_choice
from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.int8_choice import type_for_int8
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.typed_graph import TypeRequest
from trt_tts.errors import QualityError
from trt_tts.quality import Quality

NAMES = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")
GOOD = Quality("fp32", True, 99, 0.98, 0.003, 25.0, 0.01, 0.1)
FAIR = replace(GOOD, top1=0.96, kl=0.006)
BAD = replace(GOOD, top1=0.90, kl=0.05)
WORST, SECOND = "layers.0.mlp.down_proj/MatMul", "layers.1.mlp.down_proj/MatMul"


@pytest.fixture
def request_(tiny):
    """The first layers' down projections are said to suffer most."""
    layers = range(tiny.config.gpt.num_hidden_layers)
    linears = [f"layers.{i}.{name}/MatMul" for i in layers for name in NAMES]
    errors = dict.fromkeys(linears, 0.01) | {WORST: 0.5, SECOND: 0.4}
    calibration = Calibration("max", {}, dict.fromkeys(linears, 0.05), errors)
    return TypeRequest("int8", PrecisionMap(), calibration, 256, fp32_products=False)


@pytest.fixture
def choose(tiny_exports, tmp_path, request_):
    """Run the choice with the quality of each try given."""

    def chosen(answers, wanted=request_):
        left = iter(answers)
        judge = SimpleNamespace(measure=lambda file, simulated: next(left))
        return type_for_int8(judge, tiny_exports / "gpt.onnx", tmp_path, wanted, {}, lambda stage: None)

    return chosen


def test_the_worst_linear_is_left_out_first(choose, request_):
    typed, found = choose([BAD, GOOD])
    assert found is GOOD
    assert typed.products[WORST] == "fp16"
    assert len(typed.int8) == len(request_.calibration.scales) - 1


def test_a_measured_sensitivity_outranks_the_errors(choose, request_):
    other = "layers.1.self_attn.o_proj/MatMul"
    sensitivity = dict.fromkeys(request_.calibration.scales, 0.1) | {other: 0.7}
    calibration = replace(request_.calibration, sensitivity=sensitivity)
    typed, _ = choose([BAD, GOOD], replace(request_, calibration=calibration))
    assert [node for node in calibration.scales if typed.products[node] != "int8"] == [other]


def test_none_is_left_out_where_all_may_be_int8(choose, request_):
    typed, _ = choose([GOOD])
    assert set(typed.int8) == set(request_.calibration.scales)
    assert typed.int8_share == 1


def test_past_the_gate_the_choice_goes_on_towards_the_aim(choose):
    typed, found = choose([FAIR, GOOD])
    assert found is GOOD
    assert typed.products[WORST] == "fp16"


def test_towards_the_aim_three_quarters_of_the_weights_stay_int8(choose, tiny_exports):
    """Sizes counted from the graph itself."""
    typed, found = choose([FAIR] * 9)
    assert found is FAIR
    graph = onnx.load(tiny_exports / "gpt.onnx", load_external_data=False).graph
    dims = {tensor.name: tensor.dims[0] * tensor.dims[1] for tensor in graph.initializer if len(tensor.dims) == 2}
    sizes = {node.name: dims[node.input[1]] for node in graph.node if node.name in typed.linears}
    assert typed.linears == sizes
    share = sum(sizes[node] for node in typed.int8) / sum(sizes.values())
    assert typed.int8_share == share >= int8_choice.LEAST_INT8
    left = sorted(set(sizes) - set(typed.int8))
    assert left == [WORST] or share - sizes[SECOND] / sum(sizes.values()) < int8_choice.LEAST_INT8


def test_to_pass_the_gate_more_may_leave(choose):
    typed, found = choose([BAD, BAD, BAD, FAIR])
    assert found is FAIR
    assert {WORST, SECOND} < {node for node in typed.linears if typed.products[node] == "fp16"}


@pytest.mark.slow
def test_a_voice_that_does_not_survive_fails_with_what_was_tried(choose):
    with pytest.raises(
        QualityError, match=r"top-1 agreement 90\.00%, allowed .*4 worst of 8 linears.*--no-gate"
    ) as error:
        choose([BAD] * 9)
    assert error.value.found == BAD


@pytest.mark.slow
def test_tries_that_run_out_past_the_gate_are_no_failure(choose, request_, monkeypatch):
    monkeypatch.setattr(int8_choice, "LEAST_INT8", 0.0)
    typed, found = choose([FAIR] * 5)
    assert found is FAIR and len(typed.int8) == 4
    everything = PrecisionMap((("layers.*_proj/MatMul", "int8"),))
    typed, found = choose([FAIR], replace(request_, rules=everything))
    assert found is FAIR and len(typed.int8) == 8, "nothing is free to be left out: one try"


def test_pinned_linears_are_not_counted_among_those_that_may_leave(choose, request_):
    pinned = PrecisionMap(((WORST, "int8"), (SECOND, "fp16")))
    typed, _ = choose([BAD, BAD, GOOD], replace(request_, rules=pinned))
    left = {node for node in typed.linears if typed.products[node] != "int8"}
    assert SECOND in left and WORST not in left and len(left) == 3


def test_a_pin_of_the_user_outranks_the_choice(choose, request_):
    typed, _ = choose([BAD, GOOD], replace(request_, rules=PrecisionMap(((WORST, "int8"),))))
    assert typed.products[WORST] == "int8"
