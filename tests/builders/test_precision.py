"""What the pass decides on small graphs: guard, moves, caches, islands, pins."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.builders.half_forms import float_types, guarded, half, interface, linear, scaled
from tests.reference_case import snr
from tests.small_graph import FLOAT, HALF, named, node, relative_error, run, run_rounded, types_of, write
from trt_tts.builders.precision import HALF_LIMIT
from trt_tts.errors import ExportError

RANDOM = np.random.default_rng(7)
BOOL, INT64 = onnx.TensorProto.BOOL, onnx.TensorProto.INT64


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
