import json
import re
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trt_tts.builders.cards import load_cards
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.planner import (
    PRECISIONS,
    activation_bytes,
    as_json,
    kv_bytes,
    plan_memory,
    require_fit,
    shared_activations,
    weight_bytes,
    what_fits,
)
from trt_tts.builders.profiles import Profile, ShapeRange, profiles_of
from trt_tts.errors import CapacityError, UsageError
from trt_tts.gpu.layout import io_bytes
from trt_tts.manifest import Limits, Manifest
from trt_tts.model_config import ModelConfig

PUBLISHED = ModelConfig()
GTX1650 = load_cards()["gtx1650"]
KIB = 1024

# What NVIDIA's builder reports: TensorRT-RTX 1.7.1 for SM75, FP16, caches of 2048 positions.
# Activations of gpt: (rows, steps, largest span) -> bytes.
GPT_ACTIVATIONS = {
    (2, 1, 256): 10_267_648,
    (2, 1, 512): 10_269_696,
    (2, 1, 1024): 11_371_520,
    (2, 1, 2048): 14_528_512,
    (4, 1, 256): 10_295_296,
    (4, 1, 512): 11_397_120,
    (4, 1, 1024): 14_551_040,
    (4, 1, 2048): 25_255_936,
    (8, 1, 256): 11_447_808,
    (8, 1, 512): 14_601_728,
    (8, 1, 1024): 25_300_480,
    (8, 1, 2048): 50_511_360,
    (2, 32, 256): 11_052_544,
    (2, 32, 2048): 15_296_000,
    (2, 64, 1024): 12_962_304,
    (2, 128, 256): 14_586_880,
    (2, 128, 2048): 17_732_608,
    (4, 32, 1024): 16_108_032,
    (4, 128, 1024): 20_981_760,
    (4, 128, 2048): 31_664_128,
}
DEMO_GPT_ACTIVATIONS = {
    (2, 1, 256): 8_470_016,
    (4, 1, 512): 9_274_368,
    (4, 1, 2048): 12_432_896,
    (2, 128, 2048): 11_023_360,
    (4, 128, 2048): 13_854_720,
}
# Of the codec: steps of a window -> bytes.
CODEC_ACTIVATIONS = {32: 8_978_432, 64: 9_764_864, 256: 14_483_456, 512: 20_774_912, 1024: 33_357_824}
DEMO_CODEC_ACTIVATIONS = {64: 8_799_744, 256: 10_618_368, 512: 13_043_200}
WEIGHTS = {
    ("gpt", "fp16"): 385_186_304,
    ("gpt", "int8"): 196_845_712,
    ("codec", "fp16"): 82_084_864,
    ("codec_vq", "fp16"): 43_800_592,
    ("text_head", "fp16"): 32_623_744,
    ("voice_encoder", "fp16"): 18_753_408,
}


def gpt_profile(config, rows, steps, span):
    sizes = {"rows": (rows, steps, config.gpt.hidden_size), "span": (span,)}
    return Profile("by hand", {name: ShapeRange(shape, shape, shape) for name, shape in sizes.items()})


def codec_profile(config, steps):
    shape = (1, steps, config.gpt.hidden_size)
    return Profile("by hand", {"hidden": ShapeRange(shape, shape, shape)})


def part(plan, name):
    return next(item.bytes for item in plan.parts if item.name == name)


@pytest.mark.parametrize(("point", "reported"), GPT_ACTIVATIONS.items())
def test_activations_of_gpt_are_near_the_builders_report(point, reported):
    found = activation_bytes("gpt", gpt_profile(PUBLISHED, *point), PUBLISHED, "fp16")
    assert found == pytest.approx(reported, rel=0.2)


@pytest.mark.parametrize(("point", "reported"), DEMO_GPT_ACTIVATIONS.items())
def test_activations_of_the_demo_voices_gpt_are_near_the_builders_report(point, reported, demo):
    found = activation_bytes("gpt", gpt_profile(demo.config, *point), demo.config, "fp16")
    assert found == pytest.approx(reported, rel=0.2)


@pytest.mark.parametrize(("steps", "reported"), CODEC_ACTIVATIONS.items())
def test_activations_of_the_codec_are_near_the_builders_report(steps, reported):
    found = activation_bytes("codec", codec_profile(PUBLISHED, steps), PUBLISHED, "fp16")
    assert found == pytest.approx(reported, rel=0.2)


@pytest.mark.parametrize(("steps", "reported"), DEMO_CODEC_ACTIVATIONS.items())
def test_activations_of_the_demo_voices_codec_are_near_the_builders_report(steps, reported, demo):
    found = activation_bytes("codec", codec_profile(demo.config, steps), demo.config, "fp16")
    assert found == pytest.approx(reported, rel=0.2)


@pytest.mark.parametrize(("graph", "precision"), WEIGHTS)
def test_weights_are_near_the_builders_report(graph, precision):
    assert weight_bytes(graph, PUBLISHED, precision) == pytest.approx(WEIGHTS[graph, precision], rel=0.05)


def count(tensors, *skipped):
    return sum(value.size for name, value in tensors.items() if not name.startswith(skipped))


@pytest.mark.parametrize("name", ["tiny", "demo"])
def test_weights_are_those_of_the_checkpoints_own_tensors(name, request):
    checkpoint = request.getfixturevalue(name)
    embed = checkpoint.tensors["embed"]
    codes = sum(value.size for key, value in embed.items() if "code" in key)
    vocos = checkpoint.tensors["vocos"]
    spectrum = 1026 * 1024 + count(vocos, "feature_extractor.", "head.istft.")
    dvae = checkpoint.tensors["dvae"]
    counts = {
        "gpt": count(checkpoint.tensors["gpt"]) + codes,
        "text_head": embed["head_text.weight"].size,
        "codec": count(checkpoint.tensors["decoder"]) + spectrum,
        "codec_vq": count(dvae, "encoder.", "downsample_conv.", "preprocessor_mel.") + spectrum,
        "voice_encoder": count(dvae, "decoder.", "out_conv.", "coef") + 1026 * 1024,
    }
    for graph, values in counts.items():
        tolerance = 0.01 if graph in ("gpt", "text_head") else 0.05
        assert weight_bytes(graph, checkpoint.config, "fp16") == pytest.approx(2 * values, rel=tolerance), graph
        assert weight_bytes(graph, checkpoint.config, "fp32") == pytest.approx(4 * values, rel=tolerance), graph


def test_fp32_weights_are_those_of_the_exported_graphs(tiny, tiny_set):
    for name, graph in Manifest.load(tiny_set).graphs.items():
        assert weight_bytes(name, tiny.config, "fp32") == pytest.approx(graph.weight_bytes["float32"], rel=0.05), name


def test_int8_halves_the_weights_of_gpt_and_no_others():
    assert 0.5 < weight_bytes("gpt", PUBLISHED, "int8") / weight_bytes("gpt", PUBLISHED, "fp16") < 0.52
    for graph in GRAPHS.keys() - {"gpt"}:
        assert weight_bytes(graph, PUBLISHED, "int8") == weight_bytes(graph, PUBLISHED, "fp16")


@given(st.integers(1, 64), st.integers(1, 4096))
def test_a_cached_position_takes_60_kib_in_fp16_and_twice_that_in_fp32(rows, capacity):
    limits = Limits(max_batch=rows, capacity=capacity, prefill_chunk=128)
    assert kv_bytes(PUBLISHED, "fp16", limits) == 60 * KIB * rows * capacity
    assert kv_bytes(PUBLISHED, "int8", limits) == 60 * KIB * rows * capacity
    assert kv_bytes(PUBLISHED, "fp32", limits) == 120 * KIB * rows * capacity


def test_a_cached_position_of_the_demo_voice_is_keys_and_values_of_five_layers(demo):
    assert kv_bytes(demo.config, "fp16", Limits(max_batch=1, capacity=1, prefill_chunk=1)) == 2 * 5 * 256 * 2


def test_activations_are_shared_by_all_profiles_so_the_largest_counts():
    plan = plan_memory(PUBLISHED, GTX1650, "fp16", 4)
    shared = shared_activations(PUBLISHED, "fp16", plan.limits)
    names = {f"{graph}/{p.name}" for graph in ("gpt", "codec") for p in profiles_of(graph, PUBLISHED, plan.limits)}
    assert shared.keys() == names
    assert part(plan, "activations") == max(shared.values())


def test_io_holds_the_prompt_rows_the_noise_and_the_sound():
    limits = Limits(max_batch=4, capacity=2048, prefill_chunk=128, codec_steps=512)
    sound = 4 * 512 * 768 + 4 * 512 * 512
    prompt, noise, positions = 128 * (768 * 4 + 4 * 4 + 1), 4 * 4 * 50 * 4, 2048 * 4
    largest = sound + prompt + noise + positions
    assert largest < io_bytes(PUBLISHED.gpt, limits) < 1.03 * largest


def test_hidden_states_are_kept_for_every_step_of_every_row():
    plan = plan_memory(PUBLISHED, GTX1650, "fp16", 4)
    assert part(plan, "hidden states") == 4 * 2048 * 768 * 4


PLANS = st.tuples(
    st.sampled_from(list(load_cards().values())),
    st.sampled_from(PRECISIONS),
    st.integers(1, 64),
    st.none() | st.floats(1, 80),
)


@given(PLANS)
def test_totals_add_up(asked):
    plan = plan_memory(PUBLISHED, *asked)
    resident = {item.name: item.bytes for item in plan.parts if item.resident}
    on_demand = {item.name for item in plan.parts if not item.resident}
    assert len(resident) + len(on_demand) == len(plan.parts)
    assert on_demand == {f"{name} weights" for name, entry in GRAPHS.items() if not entry.resident}
    assert all(size >= 0 for size in resident.values())
    assert plan.total == sum(resident.values())
    outside = ("desktop", "CUDA context", "reserve")
    assert plan.engine == plan.total - sum(resident[name] for name in outside)
    assert abs(resident["desktop"] + resident["CUDA context"] - plan.card.reserved) <= 1
    assert plan.fits == (plan.total <= plan.card.memory)


@given(PLANS)
def test_more_rows_or_longer_speech_never_take_less(asked):
    card, precision, batch, seconds = asked
    seconds = seconds or 1.0
    plan = plan_memory(PUBLISHED, card, precision, batch, seconds)
    wider = plan_memory(PUBLISHED, card, precision, batch + 1, seconds)
    longer = plan_memory(PUBLISHED, card, precision, batch, min(seconds + 2, 81))
    for larger in (wider, longer):
        assert all(a.bytes <= b.bytes for a, b in zip(plan.parts, larger.parts, strict=True))
    assert wider.total > plan.total
    assert longer.total > plan.total or longer.limits == plan.limits


@given(PLANS)
def test_precisions_are_ordered(asked):
    card, _, batch, seconds = asked
    fp32, fp16, int8 = (plan_memory(PUBLISHED, card, p, batch, seconds).total for p in ("fp32", "fp16", "int8"))
    assert int8 < fp16 < fp32


def test_the_plan_is_json_with_its_totals():
    plan = plan_memory(PUBLISHED, GTX1650, "fp16", 4)
    data = json.loads(json.dumps(as_json(plan)))
    assert (data["total"], data["engine"], data["fits"]) == (plan.total, plan.engine, True)
    assert sum(item["bytes"] for item in data["parts"] if item["resident"]) == plan.total
    assert (data["card"]["key"], data["precision"], data["limits"]["max_batch"]) == ("gtx1650", "fp16", 4)
    assert data["bounds"][0].keys() == {"rows", "span", "bytes", "milliseconds", "steps_per_second"}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("batch", [1, 4])
def test_step_bounds_are_bytes_over_bandwidth(precision, batch):
    plan = plan_memory(PUBLISHED, GTX1650, precision, batch)
    position = {"fp32": 120, "fp16": 60, "int8": 60}[precision] * KIB
    assert {(item.rows, item.span) for item in plan.bounds} == {(r, s) for r in {1, batch} for s in (256, 2048)}
    for bound in plan.bounds:
        assert bound.bytes == part(plan, "gpt weights") + bound.rows * bound.span * position
        assert bound.milliseconds == pytest.approx(bound.bytes / 128.1e9 * 1000)
        assert bound.steps_per_second == pytest.approx(128.1e9 / bound.bytes)


def test_small_cards_get_shorter_windows_and_chunks():
    large, small = (plan_memory(PUBLISHED, load_cards()[key], "fp16", 1).limits for key in ("gtx1650", "mx450"))
    assert small.codec_steps < large.codec_steps
    assert small.prefill_chunk < large.prefill_chunk


CARDS = st.builds(
    lambda memory, desktop: replace(GTX1650, memory_mib=memory, desktop_mib=desktop),
    st.integers(1000, 12_000),
    st.integers(0, 2000),
)


@settings(max_examples=30)
@given(CARDS, st.sampled_from(PRECISIONS), st.integers(1, 64), st.none() | st.floats(1, 80))
def test_what_fits_really_fits_and_nothing_larger_does(card, precision, batch, seconds):
    asked = plan_memory(PUBLISHED, card, precision, batch, seconds)
    fitting = what_fits(PUBLISHED, asked)

    def fits(rows, capacity):
        plan = plan_memory(PUBLISHED, card, precision, rows, (capacity - 256) / 46.875 - 0.01)
        assert plan.limits.capacity == capacity
        return plan.fits

    capacity = asked.limits.capacity
    assert 0 <= fitting.max_batch <= batch
    if fitting.max_batch:
        assert fits(fitting.max_batch, capacity)
    if fitting.max_batch < batch:
        assert not fits(fitting.max_batch + 1, capacity)
    longest = 256 + round(fitting.max_seconds * 46.875)
    assert 256 <= longest <= capacity
    if longest > 256:
        assert fits(batch, longest)
    if longest < capacity:
        assert not fits(batch, longest + 64)
    assert asked.fits == (fitting.max_batch == batch) == (longest == capacity)


@settings(max_examples=30)
@given(CARDS, st.sampled_from(PRECISIONS), st.integers(1, 64), st.none() | st.floats(1, 80))
@pytest.mark.slow
def test_a_card_that_is_too_small_is_refused_with_commands_that_fit(card, precision, batch, seconds):
    plan = plan_memory(PUBLISHED, card, precision, batch, seconds)
    if plan.fits:
        require_fit(PUBLISHED, plan)
    assume(not plan.fits)
    with pytest.raises(CapacityError) as caught:
        require_fit(PUBLISHED, plan)
    message = str(caught.value)
    assert caught.value.exit_code == 1
    for said in (
        card.name,
        precision,
        f"--max-batch {batch}",
        f"{plan.total / 1e6:.0f} MB",
        f"{card.memory / 1e6:.0f}",
    ):
        assert said in message
    rows = re.search(r"--max-batch (\d+) at \d+ s", message)
    if rows:
        assert plan_memory(PUBLISHED, card, precision, int(rows[1]), seconds).fits
    shorter = re.search(r"--max-seconds (\d+) at --max-batch (\d+)", message)
    if shorter:
        assert int(shorter[2]) == batch
        assert plan_memory(PUBLISHED, card, precision, batch, int(shorter[1])).fits
    assert bool(rows or shorter) != ("Nothing fits" in message)


def test_a_card_that_others_fill_is_refused_with_the_card_and_that_nothing_fits():
    card = replace(GTX1650, desktop_mib=GTX1650.memory_mib)
    assert card.budget < 0
    plan = plan_memory(PUBLISHED, card, "int8", 1, 1)
    assert what_fits(PUBLISHED, plan).max_batch == what_fits(PUBLISHED, plan).max_seconds == 0
    with pytest.raises(CapacityError, match=r"4714 MB of it for desktop, .*Nothing fits: close other programs"):
        require_fit(PUBLISHED, plan)


def test_the_gtx_1650_holds_the_published_model():
    assert plan_memory(PUBLISHED, GTX1650, "fp16", 4).fits
    assert plan_memory(PUBLISHED, load_cards()["mx450"], "fp16", 1).fits


def test_an_unknown_precision_is_refused_with_the_known_ones():
    with pytest.raises(UsageError, match=r"'fp4'.* fp32, fp16, int8"):
        plan_memory(PUBLISHED, GTX1650, "fp4", 1)


def test_speech_beyond_the_models_positions_is_refused(demo):
    with pytest.raises(UsageError, match="at most 38"):
        plan_memory(demo.config, GTX1650, "fp16", 1, 60)
