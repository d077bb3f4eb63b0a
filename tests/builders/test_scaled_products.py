"""Matrix products whose values do not fit FP16."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.builders.half_forms import float_types, guarded, linear, scaled
from tests.small_graph import HALF, node, relative_error, run, run_rounded, write
from trt_tts.builders.precision import HALF_LIMIT

RANDOM = np.random.default_rng(7)


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
