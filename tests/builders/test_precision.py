import re

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.reference_case import snr
from tests.small_graph import FLOAT, HALF, named, node, relative_error, run, run_rounded, types_of, write
from trt_tts.builders.export import FORBIDDEN_OPS, graph_files, save_model
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.precision import HALF_LIMIT, to_half
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.ranges import record
from trt_tts.builders.samples import feeds_of, speak_samples
from trt_tts.errors import ExportError

RANDOM = np.random.default_rng(7)
PRODUCTS = {"MatMul", "Gemm", "Conv"}
ISLANDS = {"Exp", "Cos", "Sin", "Softmax", "LayerNormalization", "ReduceMean", "Sqrt", "Pow", "TopK", "CumSum"}
CACHE = re.compile(r"[kv]_\d+(_out)?")
BOOL, INT64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64
NORMS = {
    "gpt": [
        *(f"layers.{i}.{name}" for i in range(2) for name in ("input_layernorm", "post_attention_layernorm")),
        "norm",
    ],
    "codec": [
        *(f"decoder.decoder.decoder_block.{i}.norm" for i in range(2)),
        "vocos.backbone.norm",
        *(f"vocos.backbone.convnext.{i}.norm" for i in range(2)),
        "vocos.backbone.final_layer_norm",
    ],
}
EVERY_NORM = [(graph, [scope]) for graph, scopes in NORMS.items() for scope in scopes] + list(NORMS.items())


@pytest.fixture(scope="module")
def exports(tiny_exports):
    return tiny_exports


@pytest.fixture(scope="module")
def feeds(tiny, tiny_set, exports):
    spoken = speak_samples(tiny, tiny_set, exports / "gpt.onnx")
    wavs = [run(exports / "codec.onnx", {"hidden": item.hidden[None]})["wav"] for item in spoken]
    return {name: feeds_of(name, tiny, spoken, wavs) for name in GRAPHS}


@pytest.fixture(scope="module")
def typed(exports, feeds):
    """Graph -> its typed form and what was decided."""
    return {name: guarded(exports / f"{name}.onnx", *feeds[name]) for name in GRAPHS}


def half(file, ranges=None, *rules):
    """The typed graph as a build writes it, and what was decided."""
    model, typing = to_half(file, PrecisionMap(rules), ranges or {})
    folder = file.parent / "typed"
    folder.mkdir(exist_ok=True)
    written = save_model(model, folder, file.stem)
    onnx.checker.check_model(written, full_check=True)
    return onnx.load(written), typing


def guarded(file, *feeds, rules=()):
    return half(file, record(file, feeds), *rules)


def float_types(model, *names):
    """For each node, the set of float types among its inputs and outputs."""
    types, nodes = types_of(model), named(model)
    wanted = [nodes[name] for name in names]
    return [
        {types[item] for item in (*one.input, *one.output) if item and types[item] in (FLOAT, HALF)} for one in wanted
    ]


def interface(model):
    return [
        [(item.name, item.type.tensor_type.elem_type, item.type.tensor_type.shape) for item in values]
        for values in (model.graph.input, model.graph.output)
    ]


@pytest.mark.parametrize("name", GRAPHS)
def test_op_census(typed, exports, name):
    model, typing = typed[name]
    source = onnx.load(exports / f"{name}.onnx", load_external_data=False)
    operators = {item.op_type for item in model.graph.node}
    assert not operators & FORBIDDEN_OPS
    assert operators <= {item.op_type for item in source.graph.node} | {"Cast"}
    for one, kinds in zip(model.graph.node, float_types(model, *named(model)), strict=True):
        if one.op_type in PRODUCTS or one.op_type == "TensorScatter":
            assert kinds == {HALF}, one.name
        elif one.op_type in ISLANDS:
            assert kinds <= {FLOAT}, one.name
        elif one.op_type != "Cast":
            assert len(kinds) <= 1, one.name
    assert set(typing.half) == {item.name for item in source.graph.node if item.op_type in PRODUCTS}
    assert (typing.kept, typing.scaled) == ((), {})
    assert ISLANDS & operators == ISLANDS & {item.op_type for item in source.graph.node}


@pytest.mark.parametrize("name", GRAPHS)
def test_inputs_and_outputs_keep_names_order_and_types_but_for_the_caches(typed, exports, name):
    before = interface(onnx.load(exports / f"{name}.onnx", load_external_data=False))
    expected = [[(key, HALF if CACHE.fullmatch(key) else kind, shape) for key, kind, shape in io] for io in before]
    assert interface(typed[name][0]) == expected
    assert sum(kind == HALF for io in expected for _, kind, _ in io) == (8 if name == "gpt" else 0)


@pytest.mark.parametrize("name", ["gpt", "text_head"])
def test_returned_model_holds_its_own_weights(exports, name):
    model, _ = to_half(exports / f"{name}.onnx", PrecisionMap(), {})
    onnx.checker.check_model(model)


def test_fp16_halves_the_weights(typed, exports):
    for name in ("gpt", "codec"):
        wide = sum(file.stat().st_size for file in graph_files(exports, name))
        assert typed[name][0].ByteSize() < 0.6 * wide


@pytest.mark.parametrize("execute", [run, run_rounded])
@pytest.mark.parametrize(
    ("name", "output", "decibels"), [("gpt", "hidden", 40), ("codec", "wav", 40), ("codec_vq", "wav", 40)]
)
def test_typed_graphs_stay_near_fp32(typed, exports, feeds, name, output, decibels, execute):
    for feed in feeds[name][:2]:
        expected, found = run(exports / f"{name}.onnx", feed), execute(typed[name][0], feed)
        assert snr(expected[output], found[output]) > decibels
        for key in filter(CACHE.fullmatch, expected):
            assert snr(expected[key], found[key]) > decibels


def test_typed_voice_encoder_gives_nearly_all_codes(typed, exports, feeds):
    expected, found = (
        np.concatenate([run(model, feed)["codes"].ravel() for feed in feeds["voice_encoder"]])
        for model in (exports / "voice_encoder.onnx", typed["voice_encoder"][0])
    )
    assert (expected == found).mean() > 0.95


def test_typed_text_head_gives_the_same_ids(typed, exports, feeds):
    for feed in feeds["text_head"]:
        assert np.array_equal(run(exports / "text_head.onnx", feed)["ids"], run(typed["text_head"][0], feed)["ids"])


def amplified(exports, graph, scopes, factor):
    """The graph with what goes into each norm multiplied, beside the original and its weights."""
    model = onnx.load(exports / f"{graph}.onnx", load_external_data=False)
    model.graph.initializer.append(numpy_helper.from_array(np.array(factor, np.float32), "factor"))
    for i, scope in enumerate(scopes):
        readers = [one for one in model.graph.node if re.fullmatch(rf"{scope}/(Pow|Div|LayerNormalization)", one.name)]
        source = readers[0].input[0]
        place = list(model.graph.node).index(readers[0])
        for one in readers:
            assert one.input[0] == source
            one.input[0] = f"amplified{i}"
        model.graph.node.insert(place, node(f"amplifier{i}/Mul", f"{source} factor", f"amplified{i}"))
    file = exports / f"{graph}.amplified.onnx"
    onnx.save(model, file)
    return file


def test_every_norm_is_amplified_below(exports):
    for graph, scopes in NORMS.items():
        found = {
            item.name.rpartition("/")[0]
            for item in onnx.load(exports / f"{graph}.onnx", load_external_data=False).graph.node
            if item.op_type in ("LayerNormalization", "Sqrt")
        }
        assert found == set(scopes)


@pytest.mark.parametrize("factor", [300, 1e6])
@pytest.mark.parametrize(("graph", "scopes"), EVERY_NORM)
def test_norms_of_large_numbers_stay_finite(exports, feeds, graph, scopes, factor):
    file = amplified(exports, graph, scopes, factor)
    feed = feeds[graph][0]
    model, typing = guarded(file, feed)
    assert all(kinds == {HALF} for kinds in float_types(model, *typing.half))
    if factor > HALF_LIMIT:
        assert {f"amplifier{i}/Mul" for i in range(len(scopes))} <= set(typing.kept)
    expected, found = run(file, feed), run_rounded(model, feed)
    assert all(np.isfinite(value).all() for value in found.values())
    output = "hidden" if graph == "gpt" else "wav"
    assert snr(expected[output], found[output]) > 25


def test_the_guard_is_what_keeps_them_finite(tmp_path):
    nodes = [
        node("m/MatMul", "x w", "a"),
        node("m/Mul", "a factor", "b"),
        node("m.norm/LayerNormalization", "b gain", "y"),
    ]
    constants = {"w": np.eye(8, dtype=np.float32), "factor": np.float32(300), "gain": np.ones(8, np.float32)}
    file = write(tmp_path, nodes, {"x": ["B", 8]}, {"y": ["B", 8]}, constants)
    feed = {"x": scaled(RANDOM.standard_normal((3, 8)), 1000)}
    model, typing = half(file)
    assert typing.kept == ()
    assert not np.isfinite(run_rounded(model, feed)["y"]).all()
    model, typing = guarded(file, feed)
    assert typing.kept == ("m/Mul",)
    assert snr(run(file, feed)["y"], run_rounded(model, feed)["y"]) > 50


def scaled(values, magnitude):
    return np.float32(values / np.abs(values).max() * magnitude)


def require_scaled_product(file, feed, name, tolerance=0.01):
    """The product is FP16, its result finite and near FP32; returns the exponent."""
    expected = run(file, feed)["y"]
    model, typing = guarded(file, feed)
    assert typing.half == (name,)
    assert typing.kept == ()
    assert float_types(model, name) == [{HALF}]
    assert relative_error(expected, run_rounded(model, feed)["y"]) < tolerance
    large = max(np.abs(value).max() for value in (*feed.values(), expected)) > HALF_LIMIT
    assert (name in typing.scaled) == large
    assert all(exponent > 0 for exponent in typing.scaled.values())
    return typing.scaled.get(name, 0)


def linear(folder, weight):
    return write(folder, [node("p/MatMul", "x w", "y")], {"x": ["B", len(weight)]}, {"y": ["B", None]}, {"w": weight})


@pytest.mark.parametrize(
    ("peak", "weight", "exponent"),
    [
        (100, 0.5, 0),  # 8 x 100 x 0.5 = 400
        (1000, 10, 2),  # result 80,000: 2 ** 2 more than half of FP16
        (40_000, 0.05, 1),  # input 40,000, result 16,000
        (1e6, 1.0, 8),  # input 2 ** 5, result 8e6: 2 ** 8
        (HALF_LIMIT, 0.125, 0),  # both just fit
        (2 * HALF_LIMIT, 0.0625, 1),
    ],
)
def test_input_and_result_of_a_linear_share_the_scaling(tmp_path, peak, weight, exponent):
    file = linear(tmp_path, np.full((8, 4), weight, np.float32))
    assert require_scaled_product(file, {"x": np.full((3, 8), peak, np.float32)}, "p/MatMul", 2e-3) == exponent


MAGNITUDE = st.floats(-3, 8).map(lambda exponent: 10.0**exponent)


@settings(max_examples=60)
@given(x=MAGNITUDE, w=st.floats(-3, 4).map(lambda exponent: 10.0**exponent))
def test_any_linear(tmp_path_factory, x, w):
    assume(x * w >= 1e-3)  # FP16 has few bits for less, and no guard against it
    file = linear(tmp_path_factory.mktemp("linear"), scaled(RANDOM.standard_normal((24, 6)), w))
    require_scaled_product(file, {"x": scaled(RANDOM.standard_normal((5, 24)), x)}, "p/MatMul")


@settings(max_examples=40)
@given(x=MAGNITUDE)
def test_any_product_with_the_constant_on_the_left(tmp_path_factory, x):
    weight = scaled(RANDOM.standard_normal((6, 24)), 3)
    io = {"x": [24, "B"]}, {"y": [6, "B"]}
    file = write(tmp_path_factory.mktemp("left"), [node("p/MatMul", "w x", "y")], *io, {"w": weight})
    require_scaled_product(file, {"x": scaled(RANDOM.standard_normal((24, 5)), x)}, "p/MatMul")


@settings(max_examples=60)
@given(x=MAGNITUDE, z=MAGNITUDE)
def test_any_product_of_two_activations(tmp_path_factory, x, z):
    assume(x * z >= 1e-3)
    io = {"x": [2, "B", 24], "z": [2, 24, "B"]}, {"y": [2, "B", "B"]}
    file = write(tmp_path_factory.mktemp("attention"), [node("p/MatMul", "x z", "y")], *io)
    feed = {"x": scaled(RANDOM.standard_normal((2, 5, 24)), x), "z": scaled(RANDOM.standard_normal((2, 24, 5)), z)}
    require_scaled_product(file, feed, "p/MatMul")


@settings(max_examples=60)
@given(x=MAGNITUDE, bias=MAGNITUDE)
def test_any_gemm_with_a_bias(tmp_path_factory, x, bias):
    constants = {"w": scaled(RANDOM.standard_normal((6, 24)), 2), "c": scaled(RANDOM.standard_normal(6), bias)}
    nodes = [node("p/Gemm", "x w c", "y", transB=1, alpha=0.5, beta=2.0)]
    file = write(tmp_path_factory.mktemp("gemm"), nodes, {"x": ["B", 24]}, {"y": ["B", 6]}, constants)
    result = 0.5 * 24 * 2 * x + 2 * bias
    assume(bias < 6e4 or result > 4 * HALF_LIMIT)
    require_scaled_product(file, {"x": scaled(RANDOM.standard_normal((5, 24)), x)}, "p/Gemm")


@settings(max_examples=60)
@given(x=MAGNITUDE, bias=MAGNITUDE)
def test_any_convolution_with_a_bias(tmp_path_factory, x, bias):
    constants = {"w": scaled(RANDOM.standard_normal((6, 4, 3)), 2), "c": scaled(RANDOM.standard_normal(6), bias)}
    nodes = [node("p/Conv", "x w c", "y", pads=[1, 1])]
    file = write(tmp_path_factory.mktemp("conv"), nodes, {"x": [1, 4, "T"]}, {"y": [1, 6, "T"]}, constants)
    require_scaled_product(file, {"x": scaled(RANDOM.standard_normal((1, 4, 9)), x)}, "p/Conv")


def test_products_may_share_a_large_input(tmp_path):
    nodes = [node("p/MatMul", "x v", "y"), node("q/MatMul", "x w", "z"), node("q/Sigmoid", "x", "s")]
    constants = {name: RANDOM.standard_normal((24, 6), np.float32) for name in "vw"}
    file = write(tmp_path, nodes, {"x": ["B", 24]}, {name: ["B", None] for name in "yzs"}, constants)
    feed = {"x": scaled(RANDOM.standard_normal((5, 24)), 1e6)}
    model, typing = guarded(file, feed)
    assert set(typing.scaled) == {"p/MatMul", "q/MatMul"}
    found = run_rounded(model, feed)
    for name, value in run(file, feed).items():
        assert relative_error(value, found[name]) < 2e-3


def test_weights_beyond_fp16(tmp_path):
    file = linear(tmp_path, scaled(RANDOM.standard_normal((24, 6)), 1e6))
    feed = {"x": scaled(RANDOM.standard_normal((5, 24)), 1e-3)}
    model, _ = guarded(file, feed)
    assert relative_error(run(file, feed)["y"], run_rounded(model, feed)["y"]) < 0.01


def test_bias_that_the_product_cancels(tmp_path):
    constants = {"w": np.ones((8, 4), np.float32), "c": np.full(4, -70_000, np.float32)}
    file = write(tmp_path, [node("p/Gemm", "x w c", "y")], {"x": ["B", 8]}, {"y": ["B", 4]}, constants)
    feed = {"x": np.full((2, 8), 10_000, np.float32)}
    model, _ = guarded(file, feed)
    assert relative_error(run(file, feed)["y"], run_rounded(model, feed)["y"]) < 0.01


def chain(folder):
    """Elementwise nodes between moves, in a scope that is no island."""
    nodes = [
        node("m/Neg", "x", "a"),
        node("m/Reshape", "a flat", "b"),
        node("m/Sigmoid", "b", "c"),
        node("m/Transpose", "b", "d", perm=[0]),
        node("m/Mul", "c d", "y"),
    ]
    return write(folder, nodes, {"x": ["B", 4]}, {"y": ["N"]}, {"flat": np.array([-1])})


def test_small_numbers_are_fp16(tmp_path):
    model, typing = guarded(chain(tmp_path), {"x": np.full((2, 4), HALF_LIMIT, np.float32)})
    assert typing.kept == ()
    names = ("m/Neg", "m/Reshape", "m/Sigmoid", "m/Transpose", "m/Mul")
    assert float_types(model, *names) == [{HALF}] * 5
    assert interface(model) == interface(onnx.load(chain(tmp_path)))


@pytest.mark.parametrize("peak", [HALF_LIMIT * 1.01, 1e5, 1e30])
def test_large_numbers_are_kept_in_fp32_and_reported(tmp_path, peak):
    file, feed = chain(tmp_path), {"x": scaled(RANDOM.standard_normal((2, 4)), peak)}
    model, typing = guarded(file, feed)
    assert typing.kept == ("m/Neg", "m/Sigmoid", "m/Mul"), "moves follow what they move and are not reported"
    assert float_types(model, "m/Neg", "m/Reshape", "m/Sigmoid", "m/Transpose", "m/Mul") == [{FLOAT}] * 5
    assert np.array_equal(run_rounded(model, feed)["y"], run(file, feed)["y"])


def test_only_the_neighbours_of_a_large_tensor_are_kept(tmp_path):
    nodes = [
        node("m/Abs", "x", "a"),
        node("m/Mul", "a a", "b"),
        node("m/Tanh", "b", "c"),
        node("m/Neg", "c", "d"),
        node("m/Sigmoid", "d", "y"),
    ]
    file = write(tmp_path, nodes, {"x": ["N"]}, {"y": ["N"]})
    model, typing = guarded(file, {"x": np.full(3, 1e3, np.float32)})
    assert typing.kept == ("m/Mul",), "Tanh is FP32 by rule"
    kinds = float_types(model, "m/Abs", "m/Mul", "m/Tanh", "m/Neg", "m/Sigmoid")
    assert kinds == [{HALF}, {FLOAT}, {FLOAT}, {HALF}, {HALF}]


@pytest.mark.parametrize("order", ["a x", "x a"])
def test_moves_that_join_small_and_large(tmp_path, order):
    """As rotary embedding does: the negated half may be small where the other is not."""
    constants = {"sizes": np.array([2, 2])}
    nodes = [
        node("m/Split", "x sizes", "p q", axis=1),
        node("m/Neg", "q", "a"),
        node("m/Concat", order.replace("x", "p"), "c", axis=1),
        node("m/Sigmoid", "c", "y"),
    ]
    file = write(tmp_path, nodes, {"x": ["B", 4]}, {"c": ["B", 4], "y": ["B", 4]}, constants)
    feed = {"x": np.array([[1e5, -1e5, 1, 2]], np.float32)}
    model, _ = guarded(file, feed)
    assert float_types(model, "m/Neg") == [{HALF}]
    assert relative_error(run(file, feed)["c"], run_rounded(model, feed)["c"]) < 0.01


def test_masks_beyond_fp16_stay_fp32(tmp_path):
    nodes = [node("m/Where", "keep x low", "y")]
    file = write(tmp_path, nodes, {"keep": (BOOL, ["N"]), "x": ["N"]}, {"y": ["N"]}, {"low": np.float32([-1e30])})
    model, typing = half(file)
    found = run_rounded(model, {"keep": np.array([True, False]), "x": np.float32([1, 2])})["y"]
    assert found.tolist() == [1, np.float32(-1e30)]
    assert typing.kept == ("m/Where",)


def cache_graph(folder):
    cache = (FLOAT, [1, 1, "C", 4])
    nodes = [node("a/TensorScatter", "k_0 x start", "k_0_out"), node("a/Sigmoid", "k_0_out", "y")]
    inputs = {"x": [1, 1, "S", 4], "k_0": cache, "start": (INT64, [1])}
    return write(folder, nodes, inputs, {"y": [1, 1, "C", 4], "k_0_out": cache})


def cache_feed(peak):
    x, cache = np.full((1, 1, 2, 4), peak, np.float32), np.ones((1, 1, 5, 4), np.float32)
    return {"x": x, "k_0": cache, "start": np.array([1])}


def test_caches_are_fp16_from_input_to_output(tmp_path):
    file, feed = cache_graph(tmp_path), cache_feed(HALF_LIMIT)
    model, typing = guarded(file, feed)
    types = types_of(model)
    assert [types[name] for name in ("x", "k_0", "start", "y", "k_0_out")] == [FLOAT, HALF, INT64, FLOAT, HALF]
    assert typing.kept == ()
    assert np.array_equal(run_rounded(model, feed)["k_0_out"], run(file, feed)["k_0_out"])


def test_caches_that_do_not_fit_are_refused(tmp_path):
    file = cache_graph(tmp_path)
    with pytest.raises(ExportError, match=r"a/TensorScatter: keys or values reach 1e\+05"):
        guarded(file, cache_feed(1e5))


@pytest.mark.parametrize("peak", [float("inf"), float("nan")])
@pytest.mark.parametrize("tensor", ["x", "y"])
@pytest.mark.parametrize("make", [lambda folder: linear(folder, np.ones((4, 4), np.float32)), chain])
def test_ranges_that_are_not_finite_are_refused(tmp_path, make, tensor, peak):
    with pytest.raises(ExportError, match=f"tensor {tensor} is not finite in FP32. Check the checkpoint"):
        half(make(tmp_path), {tensor: peak})


def test_measured_infinity_is_refused(tmp_path):
    nodes = [node("m/Mul", "x x", "a"), node("m/Sigmoid", "a", "y")]
    file = write(tmp_path, nodes, {"x": ["N"]}, {"y": ["N"]})
    with pytest.raises(ExportError, match="tensor a is not finite"):
        guarded(file, {"x": np.full(3, 1e30, np.float32)})


def island_graph(folder):
    """An island, an elementwise node outside, and a product."""
    nodes = [
        node("layers.0/Neg", "x", "a"),
        node("layers.0.mlp/Sigmoid", "a", "b"),
        node("layers.0.mlp/MatMul", "b w", "c"),
        node("layers.0.attention/Mul", "c c", "d"),
        node("layers.0.attention/Softmax", "d", "y"),
    ]
    return write(folder, nodes, {"x": ["B", 4]}, {"y": ["B", 4]}, {"w": np.eye(4, dtype=np.float32)})


ISLAND_NODES = ("layers.0/Neg", "layers.0.mlp/Sigmoid", "layers.0.mlp/MatMul", "layers.0.attention/Mul")


def test_residual_stream_and_what_feeds_a_softmax_are_fp32(tmp_path):
    model, _ = half(island_graph(tmp_path))
    kinds = float_types(model, *ISLAND_NODES, "layers.0.attention/Softmax")
    assert kinds == [{FLOAT}, {HALF}, {HALF}, {FLOAT}, {FLOAT}]


@pytest.mark.parametrize(
    ("scope", "kind"),
    [
        ("", FLOAT),
        ("layers.12", FLOAT),
        ("norm", FLOAT),
        ("layers.3.input_layernorm", FLOAT),
        ("a.decoder_block.2.norm", FLOAT),
        ("vocos.head", FLOAT),
        ("vocos.head.istft", FLOAT),
        ("quantizer.rvqs.0.project_in", FLOAT),
        ("preprocessor_mel", FLOAT),
        ("layers.0.mlp", HALF),
        ("layers.x", HALF),
        ("vocos.head.out", HALF),
        ("decoder.decoder_block.0", HALF),
        ("normal", HALF),
    ],
)
def test_islands_go_by_scope(tmp_path, scope, kind):
    name = f"{scope}/Neg" if scope else "Neg"
    model, typing = half(write(tmp_path, [node(name, "x", "y")], {"x": ["N"]}, {"y": ["N"]}))
    assert float_types(model, name) == [{kind}]
    assert typing.kept == ()


def test_pins_win_over_islands(tmp_path):
    model, _ = half(island_graph(tmp_path), {}, ("*", "fp16"))
    assert float_types(model, *ISLAND_NODES, "layers.0.attention/Softmax") == [{HALF}] * 5
    model, typing = half(island_graph(tmp_path), {}, ("*", "fp32"))
    assert float_types(model, *ISLAND_NODES, "layers.0.attention/Softmax") == [{FLOAT}] * 5
    assert typing.half == ()


def test_last_matching_pin_decides(tmp_path):
    rules = (("layers.0/*", "fp16"), ("*.mlp/*", "fp32"), ("*/MatMul", "fp16"))
    model, typing = half(island_graph(tmp_path), {}, *rules)
    assert float_types(model, *ISLAND_NODES) == [{HALF}, {FLOAT}, {HALF}, {FLOAT}]
    assert typing.half == ("layers.0.mlp/MatMul",)


def test_pins_win_over_the_guard(tmp_path):
    feed = {"x": np.full((2, 4), 4e4, np.float32)}
    model, typing = guarded(chain(tmp_path), feed, rules=(("m/Neg", "fp16"), ("m/Mul", "fp16")))
    assert typing.kept == ("m/Sigmoid",)
    assert float_types(model, "m/Neg", "m/Mul") == [{HALF}] * 2
    file = linear(tmp_path, np.ones((4, 4), np.float32))
    model, typing = guarded(file, {"x": np.full((2, 4), 1e6, np.float32)}, rules=(("p/MatMul", "fp32"),))
    assert (typing.half, typing.scaled) == ((), {})
    assert float_types(model, "p/MatMul") == [{FLOAT}]
    assert named(model).keys() == {"p/MatMul"}


def test_output_that_is_read_inside_stays_fp32_outside_and_fp16_inside(tmp_path):
    nodes = [
        node("p/MatMul", "x w", "y"),
        node("p/Neg", "y", "z"),
        node("p/Softmax", "y", "s"),
    ]
    outputs = {name: ["B", 4] for name in "yzs"}
    weight = RANDOM.standard_normal((4, 4), np.float32)
    file = write(tmp_path, nodes, {"x": ["B", 4]}, outputs, {"w": weight})
    model, _ = half(file)
    assert interface(model) == interface(onnx.load(file))
    assert float_types(model, "p/MatMul", "p/Neg", "p/Softmax") == [{HALF}, {HALF}, {FLOAT}]
    feed = {"x": RANDOM.standard_normal((3, 4), np.float32)}
    found = run_rounded(model, feed)
    for name, value in run(file, feed).items():
        assert relative_error(value, found[name]) < 2e-3


def test_constant_read_in_both_types_is_stored_in_both(tmp_path):
    nodes = [node("m/Mul", "x w", "a"), node("norm/Mul", "a w", "y")]
    weight = np.float32([1.0001, 1e4, 3])
    file = write(tmp_path, nodes, {"x": [3]}, {"y": [3]}, {"w": weight})
    model, _ = half(file)
    stored = {value.dtype.name: value for value in map(numpy_helper.to_array, model.graph.initializer)}
    assert np.array_equal(stored["float32"], weight)
    assert stored["float16"].tolist() == [1, 1e4, 3]


def test_integers_and_booleans_are_left_alone(tmp_path):
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], name="m/Shape"),
        node("m/Reshape", "x shape", "a"),
        node("m/Less", "a zero", "small"),
        node("m/ArgMax", "a", "best", axis=0, keepdims=0),
        node("m/Cast", "best", "y", to=FLOAT),
    ]
    outputs = {"small": (BOOL, ["N"]), "best": (INT64, []), "y": []}
    file = write(tmp_path, nodes, {"x": ["N"]}, outputs, {"zero": np.float32(0)})
    model, _ = half(file)
    assert interface(model) == interface(onnx.load(file))
    found = run_rounded(model, {"x": np.float32([1, -2, 5])})
    assert (found["small"].tolist(), int(found["best"]), float(found["y"])) == ([False, True, False], 2, 2.0)
