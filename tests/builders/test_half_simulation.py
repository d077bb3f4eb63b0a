import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.small_graph import node, run, run_rounded, write
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.precision import to_half
from trt_tts.builders.precision_map import PrecisionMap


def simulated(folder, file):
    model, _ = to_half(file, PrecisionMap(), {})
    onnx.save(model, folder / "typed.onnx")
    return model, write_simulation(folder / "typed.onnx", folder / "simulation.onnx")


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    folder = tmp_path_factory.mktemp("product")
    nodes = [node("m/Mul", "x a", "y"), node("m/Mul_2", "y b", "z")]
    constants = {"a": np.array(1000, np.float32), "b": np.array(0.001, np.float32)}
    return simulated(folder, write(folder, nodes, {"x": ["N"]}, {"z": ["N"]}, constants))


def test_overflow_between_two_nodes_is_seen(product):
    _, simulation = product
    assert run(simulation, {"x": np.float32([100, -100, 1])})["z"].tolist()[:2] == [np.inf, -np.inf]


def test_rounds_as_half_does(product):
    model, simulation = product
    random = np.random.default_rng(0)
    feed = (random.standard_normal(20_000) * 10 ** random.uniform(-2, 1.1, 20_000)).astype(np.float32)
    found, expected = run(simulation, {"x": feed})["z"], run_rounded(model, {"x": feed})["z"]
    assert (found == expected).mean() > 0.995, "ties apart"


@settings(max_examples=200)
@given(st.lists(st.floats(2.0**-10, 60, width=32), min_size=1, max_size=20))
def test_ties_are_off_by_one_place_at_most(product, values):
    model, simulation = product
    feed = np.float32(values)
    found, expected = run(simulation, {"x": feed})["z"], run_rounded(model, {"x": feed})["z"]
    assert np.allclose(found, expected, rtol=2.0**-9)


def test_nan_stays_nan(product):
    assert np.isnan(run(product[1], {"x": np.float32([np.nan])})["z"]).all()


def test_codec_comes_out_as_in_a_reference_evaluation(tiny_exports, tmp_path):
    model, simulation = simulated(tmp_path, tiny_exports / "codec.onnx")
    hidden = np.random.default_rng(0).standard_normal((1, 7, 64)).astype(np.float32)
    exact = run(tiny_exports / "codec.onnx", {"hidden": hidden})["wav"]
    reference = run_rounded(model, {"hidden": hidden})["wav"]
    found = run(simulation, {"hidden": hidden})["wav"]
    rounding = np.abs(reference - exact).max()
    assert np.abs(found - reference).max() < 2 * rounding, "sums are rounded in another order, no more"
    assert 0.3 < np.square(found - exact).sum() / np.square(reference - exact).sum() < 3
