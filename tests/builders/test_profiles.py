import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.builders.cards import load_cards
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.planner import PRECISIONS, plan_memory
from trt_tts.builders.profiles import ShapeRange, profiles_of, spans_of
from trt_tts.limits import speech_of
from trt_tts.manifest import Limits, Manifest
from trt_tts.model_config import ModelConfig

MODELS = pytest.mark.parametrize("model", ["published", "demo", "tiny"])
REQUESTS = st.tuples(
    st.sampled_from(list(load_cards().values())),
    st.sampled_from(PRECISIONS),
    st.integers(1, 64),
    st.none() | st.floats(1, 80),
)


@pytest.fixture(scope="module")
def configs(tiny, demo):
    return {"published": ModelConfig(), "demo": demo.config, "tiny": tiny.config}


@pytest.fixture(scope="module")
def exported_inputs(tiny_set, tiny_exports):
    """Graph -> input -> shape; the names of the dynamic dimensions are the exporter's."""
    import onnx

    gpt = onnx.load(tiny_exports / "gpt.onnx", load_external_data=False).graph.input
    graphs = Manifest.load(tiny_set).graphs
    found = {name: {item.name: item.shape for item in graphs[name].inputs} for name in GRAPHS}
    found["gpt"] = {
        item.name: tuple(d.dim_param or d.dim_value for d in item.type.tensor_type.shape.dim) for item in gpt
    }
    return found


def limits_for(config, request):
    card, precision, max_batch, seconds = request
    if seconds is not None:
        seconds = min(seconds, speech_of(config.gpt.max_position_embeddings) - 0.01)
    return plan_memory(config, card, precision, max_batch, seconds).limits


def every_profile(config, limits):
    return [(graph, profile) for graph in GRAPHS for profile in profiles_of(graph, config, limits)]


def holds(shapes, wanted):
    return all(low <= d <= high for low, d, high in zip(shapes.least, wanted, shapes.most, strict=True))


@MODELS
@given(request=REQUESTS)
@pytest.mark.case("E6")
def test_every_dimension_of_every_profile_is_positive_and_ordered(model, request, configs):
    limits = limits_for(configs[model], request)
    for graph, profile in every_profile(configs[model], limits):
        for name, shapes in profile.shapes.items():
            assert len(shapes.least) == len(shapes.typical) == len(shapes.most) > 0
            for low, middle, high in zip(shapes.least, shapes.typical, shapes.most, strict=True):
                assert 1 <= low <= middle <= high, (graph, profile.name, name)


@MODELS
@given(request=REQUESTS)
def test_decode_spans_rise_to_the_capacity_and_are_fixed_in_each_profile(model, request, configs):
    limits = limits_for(configs[model], request)
    _, *decodes = profiles_of("gpt", configs[model], limits)
    spans = [profile.shapes["span"] for profile in decodes]
    assert all(item.least == item.typical == item.most for item in spans)
    lengths = [item.most[0] for item in spans]
    assert lengths == sorted(set(lengths))
    assert lengths[-1] == limits.capacity
    assert len({profile.name for profile in decodes}) == len(decodes)


@MODELS
@given(request=REQUESTS)
def test_no_batch_is_fixed_because_the_weights_would_be_stored_twice(model, request, configs):
    limits = limits_for(configs[model], request)
    for graph in ("gpt", "text_head"):
        for profile in profiles_of(graph, configs[model], limits):
            batches = {(s.least[0], s.most[0]) for name, s in profile.shapes.items() if name != "span"}
            assert len(batches) == 1
            ((least, most),) = batches
            assert least == 1 < most


@MODELS
@given(request=REQUESTS, data=st.data())
def test_what_the_runtime_asks_for_lies_in_a_profile(model, request, data, configs):
    config = configs[model]
    limits = limits_for(config, request)
    gpt, (prefill, *decodes) = config.gpt, profiles_of("gpt", config, limits)
    rows, length = data.draw(st.integers(1, limits.max_batch)), data.draw(st.integers(1, limits.capacity))
    decode = next(profile for profile in decodes if profile.shapes["span"].most[0] >= length)
    assert holds(decode.shapes["codes_in"], (rows, 1, gpt.num_vq))
    chunk = data.draw(st.integers(1, limits.prefill_chunk))
    assert holds(prefill.shapes["rows"], (1, chunk, gpt.hidden_size))
    assert all(holds(prefill.shapes["span"], profile.shapes["span"].most) for profile in decodes)
    (codec,), (vq,) = (profiles_of(name, config, limits) for name in ("codec", "codec_vq"))
    steps = data.draw(st.integers(1, limits.codec_steps))
    assert holds(codec.shapes["hidden"], (1, steps, gpt.hidden_size))
    assert holds(vq.shapes["codes"], (1, gpt.num_vq, steps))


@MODELS
@given(request=REQUESTS)
def test_caches_have_the_capacity_in_every_profile(model, request, configs):
    config = configs[model]
    limits, gpt = limits_for(config, request), config.gpt
    names = {f"{kind}_{layer}" for layer in range(gpt.num_hidden_layers) for kind in "kv"}
    for profile in profiles_of("gpt", config, limits):
        assert names <= profile.shapes.keys()
        for name in names:
            shapes = profile.shapes[name]
            fixed = (gpt.num_attention_heads, limits.capacity, gpt.hidden_size // gpt.num_attention_heads)
            assert shapes.least[1:] == shapes.typical[1:] == shapes.most[1:] == fixed


@pytest.mark.parametrize("graph", GRAPHS)
def test_profiles_give_every_input_of_the_exported_graph_a_shape_that_it_takes(graph, exported_inputs, tiny):
    inputs = exported_inputs[graph]
    for profile in profiles_of(graph, tiny.config, Limits(max_batch=3, capacity=1024, prefill_chunk=128)):
        assert profile.shapes.keys() == inputs.keys()
        dynamic = {}
        for name, dims in inputs.items():
            shapes = profile.shapes[name]
            for dim, *ends in zip(dims, shapes.least, shapes.typical, shapes.most, strict=True):
                if isinstance(dim, int):
                    assert ends == [dim, dim, dim], (profile.name, name)
                else:
                    assert dynamic.setdefault(dim, ends) == ends, (profile.name, name, dim)


@pytest.mark.parametrize(
    ("capacity", "spans"),
    [
        (100, (100,)),
        (256, (256,)),
        (320, (256, 320)),
        (2048, (256, 512, 1024, 2048)),
        (4032, (256, 512, 1024, 2048, 4032)),
    ],
)
def test_spans_double_up_to_the_capacity(capacity, spans):
    assert spans_of(capacity) == spans


def test_a_capacity_below_the_chunk_still_gives_profiles(tiny):
    prefill, decode = profiles_of("gpt", tiny.config, Limits(max_batch=1, capacity=100, prefill_chunk=128))
    assert prefill.shapes["rows"].most[1] == 100
    assert prefill.shapes["span"].most == decode.shapes["span"].most == (100,)


@pytest.mark.parametrize(
    "shapes",
    [((0, 4), (1, 4), (2, 4)), ((2,), (1,), (3,)), ((1,), (4,), (3,)), ((1,), (1, 2), (1, 2)), ((-1,), (1,), (1,))],
)
def test_shapes_that_are_not_ordered_or_not_positive_are_refused(shapes):
    with pytest.raises(ValueError, match="shapes"):
        ShapeRange(*shapes)
