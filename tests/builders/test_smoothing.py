import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trt_tts.builders.samples import forced_feed, speak_samples
from trt_tts.builders.smoothing import smooth, write_smoothed
from trt_tts.cpu.session import open_session
from trt_tts.errors import ExportError

NAMES = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")


@pytest.fixture(scope="module")
def feed(tiny, tiny_set):
    (spoken,) = speak_samples(tiny, tiny_set, tiny_set / "gpt.onnx", most=1)
    return forced_feed(spoken, tiny.config.gpt.num_attention_heads, tiny.config.gpt.num_hidden_layers)


@pytest.fixture(scope="module")
def exact(tiny_set, feed):
    return run(tiny_set / "gpt.onnx", feed)


def run(file, feed):
    session = open_session(file, 1)
    names = [item.name for item in session.get_outputs()]
    return dict(zip(names, session.run(names, feed), strict=True))


def widths(gpt):
    return dict(zip(NAMES, (gpt.hidden_size,) * 3 + (gpt.intermediate_size,), strict=True))


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), chosen=st.sets(st.sampled_from(NAMES), min_size=1), spread=st.floats(0, 3))
@pytest.mark.slow
def test_fp32_results_stay_what_they_were(tiny, tiny_set, tmp_path_factory, feed, exact, seed, chosen, spread):
    random = np.random.default_rng(seed)
    factors = {
        f"layers.{i}.{name}/MatMul": tuple(np.exp(spread * random.uniform(-1, 1, width)).tolist())
        for name, width in widths(tiny.config.gpt).items()
        for i in range(tiny.config.gpt.num_hidden_layers)
        if name in chosen
    }
    found = run(write_smoothed(tiny_set / "gpt.onnx", factors, tmp_path_factory.mktemp("smooth")), feed)
    assert np.abs(found["hidden"] - exact["hidden"]).max() < 1e-4 * np.abs(exact["hidden"]).max()
    assert np.array_equal(found["codes"], exact["codes"])
    # Only values are smoothed in the cache, and only by the factors of o.
    for name in ("k_0_out", "k_1_out"):
        assert np.allclose(found[name], exact[name], atol=1e-4)
    if "self_attn.o_proj" in chosen:
        heads, width = tiny.config.gpt.num_attention_heads, tiny.config.gpt.head_dim
        factor = np.array(factors["layers.0.self_attn.o_proj/MatMul"]).reshape(heads, 1, width)
        assert np.allclose(found["v_0_out"] * factor, exact["v_0_out"], atol=1e-4)


def test_constants_that_several_nodes_share_are_smoothed_apart(tiny, tiny_set, tmp_path, feed):
    """Equal norms, as of untrained weights, are stored once."""
    model = onnx.load(tiny_set / "gpt.onnx")
    norms = [node for node in model.graph.node if node.op_type == "Mul" and "layernorm/" in node.name]
    for node in norms:
        node.input[1] = norms[0].input[1]
    onnx.save(model, tmp_path / "shared.onnx")
    expected = run(tmp_path / "shared.onnx", feed)
    random = np.random.default_rng(1)
    factors = {
        f"layers.{i}.{name}/MatMul": tuple(random.uniform(0.2, 5, tiny.config.gpt.hidden_size).tolist())
        for i in range(tiny.config.gpt.num_hidden_layers)
        for name in ("self_attn.qkv_proj", "mlp.gate_up_proj")
    }
    found = run(write_smoothed(tmp_path / "shared.onnx", factors, tmp_path), feed)
    assert np.abs(found["hidden"] - expected["hidden"]).max() < 1e-4 * np.abs(expected["hidden"]).max()


def test_an_input_is_divided_by_its_factors(tiny, tiny_set, tmp_path, feed):
    node = "layers.1.mlp.down_proj/MatMul"
    factors = {node: tuple(np.linspace(0.5, 2, tiny.config.gpt.intermediate_size).tolist())}
    inputs = []
    for file in (tiny_set / "gpt.onnx", write_smoothed(tiny_set / "gpt.onnx", factors, tmp_path)):
        model = onnx.load(file)
        (name,) = [item.input[0] for item in model.graph.node if item.name == node]
        model.graph.output.append(onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
        onnx.save(model, tmp_path / "exposed.onnx")
        inputs.append(run(tmp_path / "exposed.onnx", feed)[name])
    assert np.allclose(inputs[1] * np.array(factors[node], np.float32), inputs[0], rtol=1e-4, atol=1e-5)


def test_without_factors_the_graph_itself_is_used(tiny_set, tmp_path):
    assert write_smoothed(tiny_set / "gpt.onnx", {}, tmp_path) == tiny_set / "gpt.onnx"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("node", "change", "said"),
    [
        ("layers.9.mlp.down_proj/MatMul", None, "cannot be smoothed"),
        ("layers.0.mlp.up_proj/MatMul", None, "cannot be smoothed"),
        ("head_code/Gemm", None, "cannot be smoothed"),
        ("layers.0.mlp.down_proj/MatMul", lambda f: f[:-1], "factors. Calibrate"),
        ("layers.0.mlp.down_proj/MatMul", lambda f: (0.0, *f[1:]), "not a positive number"),
        ("layers.0.mlp.down_proj/MatMul", lambda f: (-1.0, *f[1:]), "not a positive number"),
        ("layers.0.mlp.down_proj/MatMul", lambda f: (float("inf"), *f[1:]), "not a positive number"),
        ("layers.0.mlp.down_proj/MatMul", lambda f: (float("nan"), *f[1:]), "not a positive number"),
    ],
)
def test_factors_that_do_not_fit_are_refused(tiny, tiny_set, node, change, said):
    factors = (1.0,) * tiny.config.gpt.intermediate_size
    with pytest.raises(ExportError, match=said):
        smooth(onnx.load(tiny_set / "gpt.onnx"), {node: change(factors) if change else factors})
