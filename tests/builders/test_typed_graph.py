import numpy as np
import onnx
import pytest
from onnx import TensorProto

from tests.reference_case import snr
from tests.small_graph import FLOAT, HALF, named, node, run, types_of, write
from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.precision import Typing
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.ranges import record
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.errors import ExportError, UsageError

RANDOM = np.random.default_rng(5)
WIDTH, CAPACITY = 32, 12
UP, DOWN, SCORES = "layers.0.up/MatMul", "layers.0.down/MatMul", "layers.0.attention/MatMul"
WEIGHTS = {name: RANDOM.standard_normal((WIDTH, WIDTH), np.float32) / 6 for name in ("up", "down")}
CALIBRATION = Calibration("entropy", {}, {UP: 0.03, DOWN: 0.03}, {UP: 0.01, DOWN: 0.02})
INT64 = TensorProto.INT64


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A linear whose rows go to a cache, attention over the cache, a linear back."""
    constants = WEIGHTS | {"heads": np.array([1, 1, -1, WIDTH]), "rows": np.array([1, -1, WIDTH])}
    nodes = [
        node(UP, "x up", "a"),
        node("layers.0.attention/Reshape", "a heads", "q"),
        node("layers.0.attention/TensorScatter", "k_0 q start", "k_0_out"),
        node("layers.0.attention/Transpose", "k_0_out", "kt", perm=[0, 1, 3, 2]),
        node(SCORES, "q kt", "s"),
        node("layers.0.attention/Softmax", "s", "p"),
        node("layers.0.attention/MatMul_2", "p k_0_out", "c"),
        node("layers.0.attention/Reshape_2", "c rows", "r"),
        node(DOWN, "r down", "y"),
    ]
    cache = (FLOAT, [1, 1, "C", WIDTH])
    inputs = {"x": [1, "S", WIDTH], "k_0": cache, "start": (INT64, [1])}
    return write(tmp_path_factory.mktemp("source"), nodes, inputs, {"y": [1, "S", WIDTH], "k_0_out": cache}, constants)


@pytest.fixture(scope="module")
def feed():
    return {
        "x": RANDOM.standard_normal((1, 3, WIDTH), np.float32),
        "k_0": RANDOM.standard_normal((1, 1, CAPACITY, WIDTH), np.float32),
        "start": np.array([4]),
    }


def request(precision="fp16", *rules, calibration=None, fp32_products=True):
    return TypeRequest(precision, PrecisionMap(rules), calibration, CAPACITY, fp32_products)


def loaded(typed):
    return onnx.load(typed.file)


def product_types(model, *names):
    types = types_of(model)
    return [{types[item] for item in (*named(model)[name].input, *named(model)[name].output)} for name in names]


def shapes(model):
    values = (*model.graph.input, *model.graph.output)
    return {item.name: [d.dim_param or d.dim_value for d in item.type.tensor_type.shape.dim] for item in values}


@pytest.mark.parametrize(
    ("precision", "decibels", "cache"), [("fp32", 120, FLOAT), ("fp16", 50, HALF), ("int8", 20, HALF)]
)
def test_written_graph_computes_the_same_with_fixed_caches(source, feed, tmp_path, precision, decibels, cache):
    typed = write_typed("gpt", source, tmp_path, request(precision, calibration=CALIBRATION), record(source, [feed]))
    assert typed.file == tmp_path / "gpt.onnx"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpt.onnx", "gpt.weights"]
    onnx.checker.check_model(typed.file, full_check=True)
    model = loaded(typed)
    assert shapes(model) == {
        "x": [1, "S", WIDTH],
        "k_0": [1, 1, CAPACITY, WIDTH],
        "start": [1],
        "y": [1, "S", WIDTH],
        "k_0_out": [1, 1, CAPACITY, WIDTH],
    }
    types = types_of(model)
    assert [types[name] for name in ("x", "k_0", "start", "y", "k_0_out")] == [FLOAT, cache, INT64, FLOAT, cache]
    expected, found = run(source, feed), run(typed.file, feed)
    for name in expected:
        assert snr(expected[name], found[name]) > decibels


def test_source_is_left_alone(source, feed, tmp_path):
    before = source.read_bytes()
    write_typed("gpt", source, tmp_path, request(), record(source, [feed]))
    assert source.read_bytes() == before
    assert list(source.parent.iterdir()) == [source]


def test_products_are_listed_with_their_types(source, tmp_path):
    kinds = {UP: "fp16", SCORES: "fp16", f"{SCORES}_2": "fp16", DOWN: "fp16"}
    assert write_typed("gpt", source, tmp_path, request(), {}).products == kinds
    rules = ((UP, "int8"), (SCORES, "fp32"))
    typed = write_typed("gpt", source, tmp_path, request("fp16", *rules, calibration=CALIBRATION), {})
    assert typed.products == kinds | {UP: "int8", SCORES: "fp32"}
    assert typed.int8 == (UP,)
    assert product_types(loaded(typed), UP, SCORES, f"{SCORES}_2", DOWN) == [{HALF}, {FLOAT}, {HALF}, {HALF}]
    typed = write_typed("gpt", source, tmp_path, request("fp32"), {})
    assert typed.products == dict.fromkeys(kinds, "fp32")
    assert (typed.int8, typed.typing) == ((), Typing((), (), {}, {}))
    assert product_types(loaded(typed), *kinds) == [{FLOAT}] * 4


def quantized_nodes(typed):
    return {name.removesuffix(".wdq") for name in named(loaded(typed)) if name.endswith(".wdq")}


def test_int8_takes_every_calibrated_linear_that_is_not_pinned_elsewhere(source, tmp_path):
    typed = write_typed("gpt", source, tmp_path, request("int8", calibration=CALIBRATION), {})
    assert set(typed.int8) == quantized_nodes(typed) == {UP, DOWN}
    for kind in ("fp16", "fp32"):
        asked = request("int8", ("*", "fp16"), (DOWN, kind), (UP, "int8"), calibration=CALIBRATION)
        typed = write_typed("gpt", source, tmp_path, asked, {})
        assert set(typed.int8) == quantized_nodes(typed) == {UP}
        assert typed.products[DOWN] == kind
    with pytest.raises(UsageError, match=r"leaves no linear in INT8.*--precision fp16"):
        write_typed("gpt", source, tmp_path, request("int8", ("*", "fp16"), calibration=CALIBRATION), {})


def test_calibration_alone_does_not_quantize(source, tmp_path):
    typed = write_typed("gpt", source, tmp_path, request("fp16", calibration=CALIBRATION), {})
    assert set(typed.int8) == quantized_nodes(typed) == set()


def test_other_graphs_than_gpt_hold_no_int8(source, tmp_path):
    typed = write_typed("codec", source, tmp_path, request("int8", calibration=CALIBRATION), {})
    assert typed.file.name == "codec.onnx"
    assert set(typed.int8) == quantized_nodes(typed) == set()


@pytest.mark.parametrize("precision", ["fp32", "fp16", "int8"])
def test_pattern_that_matches_nothing_is_refused(source, tmp_path, precision):
    asked = request(precision, (UP, "fp16"), ("layers.7.*", "fp16"), calibration=CALIBRATION)
    with pytest.raises(UsageError, match=r"'layers\.7\.\*' matches no node of gpt"):
        write_typed("gpt", source, tmp_path, asked, {})
    assert not list(tmp_path.iterdir())


def test_fp32_products_are_refused_where_the_card_has_none(source, tmp_path):
    with pytest.raises(UsageError, match=r"pins layers\.0\.up/MatMul to fp32.*Allowed: fp16, int8"):
        write_typed("gpt", source, tmp_path, request("fp16", ("layers.*", "fp32"), fp32_products=False), {})
    assert not list(tmp_path.iterdir())
    others = request("fp16", ("layers.*", "fp32"), ("*/MatMul*", "fp16"), fp32_products=False)
    typed = write_typed("gpt", source, tmp_path, others, {})
    assert set(typed.products.values()) == {"fp16"}
    typed = write_typed("gpt", source, tmp_path, request("fp16", ("layers.*", "fp32"), fp32_products=True), {})
    assert set(typed.products.values()) == {"fp32"}


@pytest.mark.parametrize("calibration", [None, Calibration("entropy", {}, {DOWN: 0.03}, {DOWN: 0.02})])
def test_int8_pins_need_a_calibration_that_covers_them(source, tmp_path, calibration):
    with pytest.raises(UsageError, match=r"pins layers\.0\.up/MatMul to int8, which the calibration does not cover"):
        write_typed("gpt", source, tmp_path, request("fp16", (UP, "int8"), calibration=calibration), {})
    with pytest.raises(UsageError, match=r"of 2 linears; layers\.0\.\w+/MatMul is missing"):
        write_typed("gpt", source, tmp_path, request("int8", calibration=calibration), {})
    assert not list(tmp_path.iterdir())


def test_a_broad_int8_pattern_means_the_linears(source, tmp_path):
    plain = write_typed("gpt", source, tmp_path, request("int8", calibration=CALIBRATION), {})
    nodes = [node.op_type for node in loaded(plain).graph.node]
    broad = write_typed("gpt", source, tmp_path, request("int8", ("layers.0.*", "int8"), calibration=CALIBRATION), {})
    assert broad.products == plain.products
    assert [node.op_type for node in loaded(broad).graph.node] == nodes


def test_calibration_of_another_graph_and_caches_that_do_not_fit_are_refused(source, tmp_path):
    foreign = Calibration("entropy", {}, {**CALIBRATION.scales, "layers.7.up/MatMul": 0.03}, {})
    with pytest.raises(ExportError, match=r"layers\.7\.up/MatMul is no linear"):
        write_typed("gpt", source, tmp_path, request("int8", calibration=foreign), {})
    with pytest.raises(ExportError, match=r"layers\.0\.attention/TensorScatter: keys or values reach 4e\+04"):
        write_typed("gpt", source, tmp_path, request(), {"k_0_out": 4e4})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["fp16", "int8"])
def test_pins_in_an_fp32_set_are_refused(source, tmp_path, kind):
    with pytest.raises(UsageError, match="--precision fp32 types nothing"):
        write_typed("gpt", source, tmp_path, request("fp32", (UP, kind), calibration=CALIBRATION), {})
