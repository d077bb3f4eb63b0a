import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.small_graph import node, write
from trt_tts.builders.export import save_model
from trt_tts.builders.ranges import record
from trt_tts.errors import TrtTtsError

RANDOM = np.random.default_rng(3)
WEIGHT = RANDOM.standard_normal((24, 16), np.float32)


def product(folder):
    """x @ WEIGHT, its tanh, and an integer part; WEIGHT is large enough to lie in a file of its own."""
    nodes = [
        node("a/MatMul", "x weight", "y"),
        node("a/Tanh", "y", "z"),
        node("a/ArgMax", "z", "best", axis=1),
    ]
    outputs = {"z": ["B", 16], "best": (onnx.TensorProto.INT64, ["B", 1])}
    file = write(folder, nodes, {"x": ["B", 24]}, outputs, {"weight": WEIGHT})
    model = onnx.load(file)
    return save_model(model, folder, "graph")


def negated(folder):
    return write(folder, [node("a/Neg", "x", "y")], {"x": ["N"]}, {"y": ["N"]})


def test_largest_magnitudes_over_all_feeds_equal_numpys(tmp_path):
    file = product(tmp_path)
    feeds = [RANDOM.standard_normal((rows, 24), np.float32) * scale for rows, scale in ((1, 1), (5, 30), (2, 0.1))]
    found = record(file, ({"x": feed} for feed in feeds))
    products = [feed @ WEIGHT for feed in feeds]
    assert set(found) == {"x", "y", "z"}, "integers and weights have no range"
    assert found["x"] == max(np.abs(feed).max() for feed in feeds)
    assert found["y"] == pytest.approx(max(np.abs(item).max() for item in products), rel=1e-5)
    assert found["z"] == pytest.approx(max(np.abs(np.tanh(item)).max() for item in products), rel=1e-5)


@pytest.fixture(scope="module")
def negation(tmp_path_factory):
    return negated(tmp_path_factory.mktemp("negation"))


@settings(max_examples=50)
@given(
    rows=st.lists(st.lists(st.floats(-(2.0**99), 2.0**99, width=32), min_size=1, max_size=5), min_size=1, max_size=4)
)
def test_any_finite_values(negation, rows):
    largest = max(abs(value) for row in rows for value in row)
    assert record(negation, [{"x": np.array(row, np.float32)} for row in rows]) == {"x": largest, "y": largest}


def test_without_feeds_nothing_is_large(tmp_path):
    assert record(negated(tmp_path), []) == {"x": 0.0, "y": 0.0}


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 63])
def test_infinite_values_are_infinite_in_every_feed_order(tmp_path, value, place):
    file, bad, good = negated(tmp_path), np.ones(64, np.float32), np.ones(3, np.float32)
    bad[place] = value
    for feeds in ([bad, good], [good, bad]):
        assert record(file, [{"x": feed} for feed in feeds]) == {"x": np.inf, "y": np.inf}


@pytest.mark.parametrize("place", [0, 1, 40, 63])
def test_nan_is_infinite_wherever_it_stands(tmp_path, place):
    values = np.ones(64, np.float32)
    values[place] = np.nan
    assert record(negated(tmp_path), [{"x": values}]) == {"x": np.inf, "y": np.inf}


def test_only_the_tensors_that_overflow_are_infinite(tmp_path):
    nodes = [node("a/Mul", "x x", "y"), node("a/Tanh", "y", "z")]
    file = write(tmp_path, nodes, {"x": ["N"]}, {"z": ["N"]})
    assert record(file, [{"x": np.array([1e30, 1], np.float32)}]) == {"x": np.float32(1e30), "y": np.inf, "z": 1.0}


def interrupted():
    yield {"x": np.ones((1, 24), np.float32)}
    raise KeyboardInterrupt


def test_folder_is_left_as_it_was(tmp_path):
    file = product(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 2
    record(file, [{"x": np.ones((1, 24), np.float32)}])
    with pytest.raises(Exception, match="x"):
        record(file, [{"x": np.ones((1, 24), np.float32)}, {"x": np.ones((1, 23), np.float32)}])
    with pytest.raises(KeyboardInterrupt):
        record(file, interrupted())
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_graph_that_cannot_be_loaded_leaves_nothing_either(tmp_path):
    file = product(tmp_path)
    file.with_suffix(".weights").unlink()
    with pytest.raises(TrtTtsError, match="cannot load"):
        record(file, [])
    assert list(tmp_path.iterdir()) == [file]
