"""The five graphs in FP16: what stays FP32, how near they are, and norms of large numbers."""

import re

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.builders.half_forms import float_types, guarded, interface
from tests.reference_case import snr
from tests.small_graph import FLOAT, HALF, named, node, run, run_rounded
from trt_tts.builders.export import FORBIDDEN_OPS, graph_files
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.precision import HALF_LIMIT, to_half
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.samples import feeds_of, speak_samples

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
@pytest.mark.case("E9")
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
