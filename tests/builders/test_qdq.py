import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.reference_case import snr
from tests.small_graph import HALF, INT8, constants_of, named, node, relative_error, run, types_of, write
from trt_tts.builders.precision import to_half
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.qdq import insert_qdq, quantize_weight
from trt_tts.builders.ranges import record
from trt_tts.errors import ExportError

RANDOM = np.random.default_rng(11)
DEEP, INNER, WIDE = 32, 24, 8
FIRST, SECOND, OTHER = "layers.0.up/MatMul", "layers.0.down/MatMul", "layers.0.attention/MatMul"
WEIGHTS = {
    "up": RANDOM.standard_normal((DEEP, INNER), np.float32),
    "down": RANDOM.standard_normal((INNER, WIDE), np.float32) * np.logspace(-1, 1, WIDE, dtype=np.float32),
}
SMALLEST_NORMAL = 2.0**-14
SMALLEST_STEP = 1e-6
FINE = st.floats(-100, 100, width=32)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Two linears, and a product of two activations."""
    nodes = [
        node(FIRST, "x up", "a"),
        node("layers.0.act/Sigmoid", "a", "b"),
        node(SECOND, "b down", "c"),
        node("layers.0.attention/Transpose", "c", "ct", perm=[1, 0]),
        node(OTHER, "c ct", "y"),
    ]
    return write(
        tmp_path_factory.mktemp("qdq"), nodes, {"x": ["B", DEEP]}, {"y": ["B", "B"], "c": ["B", WIDE]}, WEIGHTS
    )


@pytest.fixture(scope="module")
def typed(source):
    model, _ = to_half(source, PrecisionMap(), {})
    return model.SerializeToString()


def quantized(typed, scales):
    return insert_qdq(onnx.ModelProto.FromString(typed), scales)


def single_linear(folder, weight, ranges=None):
    file = write(folder, [node("p/MatMul", "x w", "y")], {"x": ["B", len(weight)]}, {"y": ["B", None]}, {"w": weight})
    return to_half(file, PrecisionMap(), ranges or {})


def levels_of(weight):
    """Restated in double precision: one step per column, the largest magnitude at 127; steps are rounded up."""
    exact = np.maximum(np.abs(np.float64(weight)).max(0) / 127, SMALLEST_STEP)
    steps = np.float16(exact)
    steps[steps < exact] = np.nextafter(steps, np.float16(1))[steps < exact]
    return np.rint(np.float64(weight) / np.float64(steps)), steps


@settings(max_examples=200)
@given(npst.arrays(np.float32, npst.array_shapes(min_dims=2, max_dims=2, max_side=12), elements=FINE), st.data())
def test_weights_lie_within_half_a_step(weight, data):
    weight = weight * np.float32(10.0 ** data.draw(st.integers(-6, 2)))
    stored, steps = quantize_weight(weight)
    assert (stored.dtype, stored.shape, steps.dtype) == (np.int8, weight.shape, np.float16)
    assert steps.shape == (weight.shape[1],)
    assert np.isfinite(steps).all()
    assert (steps > 0).all()
    assert np.abs(np.int16(stored)).max() <= 127
    wide = np.float64(steps)
    assert (np.abs(np.float64(stored) * wide - np.float64(weight)) <= wide * (0.5 + 1e-6)).all()
    used = np.abs(weight).max(0) > 127 * SMALLEST_NORMAL
    assert (np.abs(np.int16(stored)).max(0)[used] >= 126).all(), "no level is wasted"


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_weights_equal_a_restatement(kind):
    for weight in WEIGHTS.values():
        given_weight = weight.astype(kind)
        stored, steps = quantize_weight(given_weight)
        levels, expected = levels_of(given_weight)
        assert np.array_equal(steps, expected)
        assert (np.abs(stored - levels) <= (np.abs(np.float64(given_weight) / np.float64(steps)) % 1 == 0.5)).all()


def test_columns_of_zeros_and_tiny_columns_stay_finite():
    stored, steps = quantize_weight(np.array([[0, 1e-30, 1e-4, -127], [0, 0, -1e-4, 1]], np.float32))
    assert stored[:, :2].tolist() == [[0, 0], [0, 0]]
    assert stored[0, 2] == -stored[1, 2] > 95, "a column of 1e-4 keeps most of its levels"
    assert stored[:, 3].tolist() == [-127, 1] and steps[3] == 1
    assert (steps >= SMALLEST_STEP).all()


@pytest.mark.parametrize("scale", [2.0**-6, 0.5])
def test_layer_equals_a_restatement_in_numpy(typed, scale):
    """Half-to-even rounding, activations clipped to -128..127, one weight step per column."""
    x = RANDOM.standard_normal((5, DEEP), np.float32) * 3
    steps = np.float32(np.float16(scale))
    x[0, :8] = steps * np.float32([0.5, 1.5, 2.5, -0.5, -1.5, 500, -500, -128])  # ties and both ends
    x = np.float32(np.float16(x))
    model = quantized(typed, {FIRST: scale})
    model.graph.output.append(onnx.helper.make_tensor_value_info(f"{FIRST}.levels", INT8, ["B", DEEP]))
    model.graph.output.append(onnx.helper.make_tensor_value_info("a", HALF, ["B", INNER]))
    found = run(model, {"x": x})
    levels = np.clip(np.rint(x / steps), -128, 127)
    assert found[f"{FIRST}.levels"][0, :8].tolist() == [0, 2, 2, 0, -2, 127, -128, -128]
    assert np.array_equal(found[f"{FIRST}.levels"], levels)
    weight, columns = levels_of(np.float16(WEIGHTS["up"]))
    expected = np.float64(np.float16(levels * steps)) @ np.float64(np.float16(weight * np.float64(columns)))
    assert relative_error(expected, found["a"]) < 3e-3


def test_quantized_graph_stays_near_fp32(source, typed):
    x = RANDOM.standard_normal((64, DEEP), np.float32)
    scales = {FIRST: float(np.abs(x).max() / 127), SECOND: 1 / 127}
    expected, found = (run(model, {"x": x})["c"] for model in (source, quantized(typed, scales)))
    assert snr(expected, found) > 30


def test_named_linears_hold_int8_weights_and_nothing_else_changes(typed):
    model = quantized(typed, {SECOND: 0.01})
    onnx.checker.check_model(model, full_check=True)
    before, after, types = onnx.ModelProto.FromString(typed), named(model), types_of(model)
    assert set(after) - set(named(before)) == {f"{SECOND}.{end}" for end in ("q", "dq", "wdq")}
    for name, item in named(before).items():
        if name != SECOND:
            assert after[name] == item
    assert [model.graph.input, model.graph.output] == [before.graph.input, before.graph.output]
    quantize, dequantize, weight = (after[f"{SECOND}.{end}"] for end in ("q", "dq", "wdq"))
    assert (quantize.op_type, dequantize.op_type, weight.op_type) == ("QuantizeLinear", *["DequantizeLinear"] * 2)
    assert list(after[SECOND].input) == [dequantize.output[0], weight.output[0]]
    assert dequantize.input[0] == quantize.output[0]
    assert list(dequantize.input[1:]) == list(quantize.input[1:])
    assert [types[name] for name in after[SECOND].input] == [HALF, HALF]
    stored = constants_of(model)
    assert stored[weight.input[0]].dtype == np.int8
    assert stored[weight.input[0]].shape == (INNER, WIDE)
    assert [item.i for item in weight.attribute if item.name == "axis"] == [1]
    assert not any(item.dtype.kind == "f" and item.shape == (INNER, WIDE) for item in stored.values())


def test_zero_points_are_zero_and_scales_positive(typed):
    model = quantized(typed, {FIRST: 0.25, SECOND: 0.01})
    stored = constants_of(model)
    pairs = [item for item in model.graph.node if item.op_type in ("QuantizeLinear", "DequantizeLinear")]
    assert len(pairs) == 6
    for item in pairs:
        scale, zero = stored[item.input[1]], stored[item.input[2]]
        assert (zero.dtype, scale.dtype, zero.shape) == (np.int8, np.float16, scale.shape)
        assert not zero.any()
        assert np.isfinite(scale).all()
        assert (scale > 0).all()
    assert stored[named(model)[f"{FIRST}.q"].input[1]] == np.float16(0.25)
    assert stored[named(model)[f"{FIRST}.q"].input[1]].shape == ()


def test_no_scales_change_nothing(typed):
    assert named(quantized(typed, {})) == named(onnx.ModelProto.FromString(typed))


@pytest.mark.parametrize("name", ["layers.9.up/MatMul", OTHER, "layers.0.act/Sigmoid", "", FIRST.upper()])
def test_names_that_are_no_linear_are_refused(typed, name):
    with pytest.raises(ExportError, match="is no linear of this graph") as error:
        quantized(typed, {FIRST: 0.1, name: 0.1})
    assert str(error.value).startswith(f"{name} ")


@pytest.mark.parametrize("scale", [0, 0.0, -0.1, float("nan"), float("inf"), -float("inf"), 1e9, 1e-9, 65505.0])
def test_scales_that_no_fp16_number_can_be_are_refused(typed, scale):
    with pytest.raises(ExportError) as error:
        quantized(typed, {FIRST: scale})
    assert f"{FIRST}: its scale is {scale!r}; allowed: positive, within FP16" in str(error.value)


@pytest.mark.parametrize("scale", [SMALLEST_NORMAL, 65504.0])
def test_outermost_scales_are_kept(typed, scale):
    model = quantized(typed, {FIRST: scale})
    assert constants_of(model)[named(model)[f"{FIRST}.q"].input[1]] == scale


@settings(max_examples=50)
@given(weight=npst.arrays(np.float32, (6, 3), elements=FINE), rows=npst.arrays(np.float32, (2, 6), elements=FINE))
def test_activations_within_the_scale_are_off_by_half_a_step_at_most(tmp_path_factory, weight, rows):
    scale = max(float(np.abs(rows).max() / 127), SMALLEST_NORMAL)
    model, _ = single_linear(tmp_path_factory.mktemp("linear"), weight)
    found = run(insert_qdq(model, {"p/MatMul": scale}), {"x": rows})["y"]
    levels, columns = levels_of(np.float16(weight))
    dense = np.abs(levels * np.float64(columns))
    half_step = 0.54 * scale * dense.sum(0)  # the quotient may be rounded in FP16 before it becomes a level
    rounding = 4e-3 * (np.abs(rows) @ dense) + 1e-4
    assert (np.abs(np.float64(found) - np.float64(rows) @ (levels * columns)) <= half_step + rounding).all()


@pytest.mark.parametrize("magnitude", [1e5, 1e6])
def test_scaled_linears_lose_no_levels(tmp_path, magnitude):
    weight = RANDOM.standard_normal((64, 64), np.float32) / 8
    x = RANDOM.standard_normal((64, 64), np.float32) * np.float32(magnitude)
    file = write(tmp_path, [node("p/MatMul", "x w", "y")], {"x": ["B", 64]}, {"y": ["B", 64]}, {"w": weight})
    model, typing = to_half(file, PrecisionMap(), record(file, [{"x": x}]))
    assert typing.scaled
    scales = {"p/MatMul": float(np.abs(x).max() / 127)}
    found = run(insert_qdq(model, scales, typing.divided), {"x": x})["y"]
    assert snr(x @ weight, found) > 30
