"""The whole engine on a GPU: a real one with `-m gpu`, the emulated one everywhere."""

import json
import os
import shutil
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from tests.cuda_emulator.environment import EMULATED
from tests.prompts import spoiled, with_rows
from tests.reference_case import snr
from tests.threads import at_once
from trt_tts import CapacityError, Engine, EngineSetError, TrtTtsError
from trt_tts.builders.engine_set import hash_files
from trt_tts.cuda.device import Device
from trt_tts.generation import Prompt, Sampling, generate
from trt_tts.gpu.memory import device_total
from trt_tts.manifest import MANIFEST, Manifest

pytestmark = pytest.mark.gpu
TEXTS = ["one", "two words", "three short words", "and four of them", "five words are a sentence"]
LEAST_SNR = 60


def same(wanted, found):
    """Equal, bit for bit on the emulated GPU. A real one may round a row otherwise in other company."""
    if os.environ.get(EMULATED):
        return np.array_equal(wanted, found)
    return len(wanted) == len(found) and snr(wanted, found) > LEAST_SNR


def on_device(parts):
    return {part.name: part.bytes for part in parts if part.where == "device"}


def requests(engine, texts, **options):
    """What the decode loop gets, straight from the engine's own frontend."""
    from trt_tts import SynthesisOptions

    chosen = SynthesisOptions(seed=1, **options)
    return [engine._prepare(text, chosen).requests[0] for text in texts]


def codes_of(engine, asked, rows):
    with engine._backend.activated():
        return {index: result.codes for index, result in generate(engine._backend.runner, asked, rows)}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.case("E2")
def test_one_text_sounds_as_on_the_cpu(cpu, gpu, seed):
    wanted, found = (engine.synthesize("two words", seed=seed, max_steps=40) for engine in (cpu, gpu))
    assert (found.steps, found.truncated, found.text) == (wanted.steps, wanted.truncated, wanted.text)
    assert snr(wanted.samples, found.samples) > LEAST_SNR


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_codes_are_those_of_the_cpu_whatever_the_batch(cpu, gpu, rows):
    asked = [replace(item, max_steps=11 + 9 * i) for i, item in enumerate(requests(cpu, TEXTS, min_steps=9))]
    wanted, found = (codes_of(engine, asked, rows) for engine in (cpu, gpu))
    assert wanted.keys() == found.keys()
    for index in wanted:
        assert np.array_equal(wanted[index], found[index])


def test_prompts_longer_than_a_chunk_go_in_pieces(cpu, gpu):
    """With codes in the prompt, as a voice prompt has them."""
    (short,) = requests(cpu, ["one"])
    random, length = np.random.default_rng(0), 300
    embedded = random.standard_normal((length, short.prompt().embedded.shape[1]), np.float32) * 0.05
    prompt = Prompt(embedded, random.integers(0, 600, (length, 4), np.int32), np.arange(length) % 3 == 0)
    asked = [replace(short, prompt=lambda: prompt, max_steps=20)]
    wanted, found = (codes_of(engine, asked, 1) for engine in (cpu, gpu))
    assert np.array_equal(wanted[0], found[0])


def test_every_option_reaches_the_gpu(cpu, gpu):
    for options in (
        {"temperature": 0.0},
        {"temperature": 1.5, "top_p": 0.99, "top_k": 50, "repetition_penalty": 1.3},
        {"min_steps": 30, "max_steps": 30},
        {"max_steps": 1},
    ):
        (asked,) = requests(cpu, ["two words"], **{"max_steps": 40, **options})
        wanted, found = (codes_of(engine, [asked], 1) for engine in (cpu, gpu))
        assert np.array_equal(wanted[0], found[0]), options


def test_a_batch_and_a_text_of_many_segments_sound_as_on_the_cpu(cpu, gpu):
    long = ". ".join(TEXTS * 2)
    wanted, found = (engine.synthesize_batch([long, "one"], seed=3, max_steps=25) for engine in (cpu, gpu))
    for first, second in zip(wanted, found, strict=True):
        assert first.steps == second.steps
        assert snr(first.samples, second.samples) > LEAST_SNR


def test_the_codec_that_reads_codes_and_the_refine_pass_work_too(cpu, gpu):
    wanted, found = (engine.synthesize("one", seed=2, max_steps=20, use_decoder=False) for engine in (cpu, gpu))
    assert snr(wanted.samples, found.samples) > LEAST_SNR
    wanted, found = (engine.synthesize("two words", seed=4, max_steps=5, refine=True) for engine in (cpu, gpu))
    assert wanted.text == found.text != "two words"


@pytest.mark.parametrize("decoder", [True, False])
def test_windows_of_the_codec_join_without_a_seam(gpu, decoder, monkeypatch):
    """Many short windows against one for all of the clip."""
    options = {"seed": 5, "min_steps": 150, "max_steps": 150, "use_decoder": decoder}
    joined = gpu.synthesize("two words", **options)
    monkeypatch.setattr("trt_tts.windows.STRIDES", (150,))
    whole = gpu.synthesize("two words", **options)
    assert joined.samples.shape == whole.samples.shape
    assert snr(whole.samples, joined.samples) > 100
    monkeypatch.setattr("trt_tts.windows.STRIDES", (13,))
    joined = gpu.synthesize("two words", **options)
    assert snr(whole.samples, joined.samples) > 100


def test_a_stream_gives_what_synthesize_gives_bit_for_bit(cpu, gpu):
    options, text = {"seed": 6, "min_steps": 100, "max_steps": 100}, "two words. and three more"
    whole, chunks = gpu.synthesize(text, **options), list(gpu.stream(text, **options))
    assert len(chunks) == 6
    assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks]), whole.samples)
    assert snr(cpu.synthesize(text, **options).samples, whole.samples) > LEAST_SNR


def test_a_short_lookahead_has_its_sound_sooner_and_as_synthesize_gives_it(cpu, gpu):
    options = {"seed": 6, "min_steps": 100, "max_steps": 100, "lookahead": 2}
    whole, chunks = gpu.synthesize("two words", **options), list(gpu.stream("two words", **options))
    assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks]), whole.samples)
    assert snr(cpu.synthesize("two words", **options).samples, whole.samples) > LEAST_SNR
    assert gpu.first_sound_steps(2) == 4 < gpu.first_sound_steps()
    assert gpu.lookahead_snr(2) == pytest.approx(cpu.lookahead_snr(2), abs=0.5)


def test_streams_share_the_batch_and_one_that_is_closed_harms_no_other(gpu):
    options = {"min_steps": 80, "max_steps": 80}
    wanted = gpu.synthesize("two words", seed=1, **options).samples
    kept, closed = (gpu.stream("two words", seed=seed, **options) for seed in (1, 2))
    found = [next(kept)]
    next(closed)
    (other,) = (item for item in gpu._speaker._loop._active if item.request.seed == 2)
    between = gpu.synthesize("one", seed=3, max_steps=7)
    closed.close()
    assert other not in gpu._speaker._loop._active
    found += kept
    assert same(wanted, np.concatenate([chunk.samples for chunk in found]))
    assert same(between.samples, gpu.synthesize("one", seed=3, max_steps=7).samples)


def test_threads_get_what_they_would_get_alone(gpu):
    alone = [gpu.synthesize(text, seed=7, max_steps=15).samples for text in TEXTS]
    found = {}

    def speak(index):
        found[index] = gpu.synthesize(TEXTS[index], seed=7, max_steps=15).samples

    at_once(speak, range(len(TEXTS)))
    assert all(same(alone[i], found[i]) for i in range(len(TEXTS)))


def test_a_row_that_is_not_a_number_fails_alone_and_its_place_is_clean_again(cpu, gpu):
    asked = [replace(item, max_steps=12) for item in requests(cpu, TEXTS[:3], min_steps=12)]
    clean = codes_of(gpu, asked, 3)
    poisoned = spoiled(asked[1])
    with gpu._backend.activated():
        mixed = dict(generate(gpu._backend.runner, [asked[0], poisoned, asked[2], *asked], 3))
    assert mixed[1].failed
    for index, wanted in ((0, 0), (2, 2), (3, 0), (4, 1), (5, 2)):
        assert np.array_equal(mixed[index].codes, clean[wanted])
    with gpu._backend.activated():
        next(generate(gpu._backend.runner, [poisoned, asked[0]], 2))
    assert all(np.array_equal(codes, clean[index]) for index, codes in codes_of(gpu, asked, 3).items())


def test_a_place_that_held_what_is_not_a_number_is_clean_for_the_next(gpu):
    """The bad row is the last one: no other is moved over it."""
    first, second = requests(gpu, TEXTS[:2], min_steps=70)
    keeper, short = replace(first, max_steps=60), replace(second, max_steps=9)
    wanted = codes_of(gpu, [short], 1)[0]
    wide = first.prompt().embedded.shape[1]
    poisoned = with_rows(keeper, np.full((90, wide), np.nan, np.float32))
    assert np.array_equal(codes_of(gpu, [keeper, poisoned, short], 2)[2], wanted)
    assert len(codes_of(gpu, [poisoned], 1)[0]) == 0
    assert np.array_equal(codes_of(gpu, [short], 1)[0], wanted)


def test_a_row_keeps_its_sampling_when_it_moves(gpu):
    (asked,) = requests(gpu, TEXTS[:1], min_steps=99)
    cases = (
        (Sampling(0.0, 0.7, 20, 1.05), 6),
        (Sampling(1.4, 0.99, 50, 1.3), 12),
        (Sampling(0.9, 0.8, 30, 1.1), 30),
    )
    asked = [replace(asked, sampling=item, max_steps=steps, seed=seed) for seed, (item, steps) in enumerate(cases)]
    together = codes_of(gpu, asked, 3)
    for index, item in enumerate(asked):
        assert np.array_equal(together[index], codes_of(gpu, [item], 1)[0])


def test_warming_up_after_a_batch_does_no_harm(gpu):
    """What the batch left behind would be positions beyond every cache in the form of one row."""
    wanted = gpu.synthesize("one", seed=2, max_steps=9).samples
    gpu.synthesize_batch(TEXTS[:3], seed=1, min_steps=12, max_steps=12)
    gpu.warm_up()
    assert np.array_equal(gpu.synthesize("one", seed=2, max_steps=9).samples, wanted)


def test_a_sequence_that_fills_the_capacity_is_truncated_there(cpu, gpu):
    (asked,) = requests(cpu, ["one"], min_steps=1)
    capacity = gpu.info.limits.capacity
    room = capacity - len(asked.prompt().embedded)
    filling = replace(asked, min_steps=room + 1, max_steps=room)
    wanted, found = (codes_of(engine, [filling, asked], 2) for engine in (cpu, gpu))
    assert len(found[0]) == room
    assert np.array_equal(wanted[0], found[0]) and np.array_equal(wanted[1], found[1])
    with gpu._backend.activated(), pytest.raises(CapacityError, match=str(capacity)):
        list(generate(gpu._backend.runner, [replace(filling, max_steps=room + 5)], 1))
    assert np.array_equal(codes_of(gpu, [asked], 1)[0], found[1])


def test_memory_is_told_to_the_byte(gpu):
    parts = on_device(gpu.info.memory)
    own = ("KV cache", "hidden states", "activations", "inputs and outputs")
    assert {*own, "gpt weights", "codec weights", "contexts"} <= parts.keys()
    resident = [part for part in gpu.info.memory if part.where == "device" and part.resident]
    if len(resident) == len(parts):
        assert gpu._backend.device.allocated == sum(parts[name] for name in own)


def test_a_closed_engine_has_given_everything_back_and_refuses(tiny_trt_set):
    with closing(Device()) as other, other.activated():
        before = other.memory_info()[0]
        with Engine.load(tiny_trt_set) as engine:
            engine.synthesize("one", max_steps=3, seed=0)
            assert other.memory_info()[0] < before
        assert other.memory_info()[0] >= before - (4 << 20)
    engine.close()
    with pytest.raises(TrtTtsError, match="closed"):
        engine.synthesize("one")


def test_a_memory_limit_below_the_need_is_refused_with_the_parts_and_what_fits(tiny_trt_set, gpu):
    needed = device_total(tuple(part for part in gpu.info.memory if part.resident))
    with Engine.load(tiny_trt_set, memory_limit=needed) as engine:
        engine.synthesize("one", max_steps=3)
        with pytest.raises(CapacityError, match="codec_vq, which this call uses, takes"):
            engine.synthesize("one", max_steps=3, use_decoder=False)
        engine.synthesize("one", max_steps=3)
    with pytest.raises(CapacityError) as caught:
        Engine.load(tiny_trt_set, memory_limit=needed - 1)
    said = str(caught.value)
    assert "memory_limit allows" in said and "KV cache: " in said and "--max-batch 2" in said


def test_a_full_gpu_is_refused_before_anything_is_allocated(tiny_trt_set):
    with closing(Device()) as other, other.activated():
        other.allocate(other.memory_info()[0] - (4 << 20))
        with pytest.raises(CapacityError, match=r"free on the GPU are(?s:.*)are taken by others"):
            Engine.load(tiny_trt_set)
        assert other.memory_info()[0] > 2 << 20
    Engine.load(tiny_trt_set).close()


def swap(folder, name, data):
    """Another plan under the name of one, with a manifest that knows its hash."""
    (folder / name).write_bytes(data)
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    hashes = hash_files(folder)[name]
    manifest["files"][name] = {"bytes": hashes.bytes, "sha256": hashes.sha256}
    (folder / MANIFEST).write_text(json.dumps(manifest), "utf-8")


@pytest.mark.parametrize("content", ["another plan", "no plan"])
def test_a_wrong_plan_is_an_error_that_names_it_and_leaves_nothing(tiny_trt_set, tmp_path, content):
    folder = shutil.copytree(tiny_trt_set, tmp_path / "set")
    swap(folder, "codec.plan", (folder / "codec_vq.plan").read_bytes() if content == "another plan" else b"nothing")
    with closing(Device()) as other, other.activated():
        before = other.memory_info()[0]
        with pytest.raises(EngineSetError, match=r"codec\.plan") as caught:
            Engine.load(folder)
        # Though the error, with all its frames, is still there.
        assert caught.traceback
        slack = 0 if os.environ.get(EMULATED) else 4 << 20
        assert other.memory_info()[0] >= before - slack


def test_e1_a_plan_of_another_precision_than_its_manifest_tells_is_refused(tiny_trt_set, tmp_path):
    """Types are asked of the engine: an FP32 plan does not pass for FP16."""
    folder = shutil.copytree(tiny_trt_set, tmp_path / "set")
    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    for tensor in (*manifest["graphs"]["gpt"]["inputs"], *manifest["graphs"]["gpt"]["outputs"]):
        if tensor["name"].startswith(("k_", "v_")):
            tensor["dtype"] = "float16"
    (folder / MANIFEST).write_text(json.dumps(manifest | {"precision": "fp16"}), "utf-8")
    with pytest.raises(EngineSetError, match=r"gpt\.plan: [kv]_0 is float32 .*by its manifest float16"):
        Engine.load(folder)


def test_a_set_for_another_card_is_refused(tiny_trt_set, tmp_path):
    folder = shutil.copytree(tiny_trt_set, tmp_path / "set")
    manifest = Manifest.load(folder)
    replace(manifest, target=replace(manifest.target, compute_capability="5.0")).save(folder)
    with pytest.raises(EngineSetError, match=r"5\.0"):
        Engine.load(folder)


def test_the_backend_says_what_runs_and_how(gpu, tiny_trt_set):
    info = gpu.info
    assert (info.backend, info.precision, info.path) == ("tensorrt", "fp32", tiny_trt_set)
    for said in (gpu._backend.device.name, "tensorrt", gpu._backend.device.driver.title, "CUDA graphs"):
        assert said in info.reason
    with pytest.raises(EngineSetError, match="built for the backend 'tensorrt', not 'cpu'"):
        Engine.load(tiny_trt_set, backend="cpu")


@pytest.mark.case("E8")
def test_a_shape_beyond_the_profile_is_an_error_with_the_tensor_and_what_is_allowed(gpu):
    context, width = gpu._backend._codec.context, gpu._manifest.config.gpt.hidden_size
    with gpu._backend.activated(), pytest.raises(EngineSetError, match=r"hidden has shape .*100000.*allowed"):
        context.bind({"hidden": (1, 100_000, width)}, {})
    assert gpu.synthesize("one", seed=1, max_steps=9).steps == 9
