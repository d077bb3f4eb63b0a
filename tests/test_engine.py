import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import trt_tts
from tests.prompts import spoiled
from tests.reference_case import Reference, snr
from tests.threads import at_once
from trt_tts import (
    CapacityError,
    Engine,
    GenerationError,
    SynthesisOptions,
    TextError,
    TrtTtsError,
    UsageError,
    Voice,
    VoiceError,
)
from trt_tts.generation import generate
from trt_tts.text.segments import PARAGRAPH_PAUSE, SENTENCE_PAUSE

TEXT = "the engine is ready"


def test_same_seed_same_samples_other_seed_other_samples(engine):
    first, again, other = (engine.synthesize(TEXT, seed=seed) for seed in (7, 7, 8))
    assert np.array_equal(first.samples, again.samples)
    assert first.samples.shape != other.samples.shape or not np.array_equal(first.samples, other.samples)


def test_audio_reports_what_made_it(engine):
    audio = engine.synthesize("  The engine\tis ready ", seed=7)
    assert audio.samples.dtype == np.float32
    assert audio.samples.size == 256 * (2 * audio.steps - 1)
    assert (audio.seed, audio.truncated, audio.text, audio.warnings) == (7, False, "The engine is ready", ())
    assert 0.01 < np.abs(audio.samples).max() < 1.5


def test_drawn_seed_reproduces_the_result(engine):
    audio = engine.synthesize(TEXT)
    assert np.array_equal(engine.synthesize(TEXT, seed=audio.seed).samples, audio.samples)


@pytest.mark.parametrize("fixture", ["engine", "int8_engine"])
def test_batch_equals_solo_runs(fixture, request):
    loaded = request.getfixturevalue(fixture)
    texts = ["hello world", "it is ten past three on sunday", TEXT, "good morning", "turn the fan on", "good evening"]
    alone = [loaded.synthesize(text, seed=5) for text in texts]
    for solo, mate in zip(alone, loaded.synthesize_batch(texts, seed=5), strict=True):
        assert (mate.steps, mate.text) == (solo.steps, solo.text)
        assert snr(solo.samples, mate.samples) > 60


def test_dvae_path_equals_the_published_implementation(engine, demo_set):
    """The engine's own generation ends elsewhere than the vectors, so the graph gets the vectors' codes."""
    reference = Reference.of("demo_voice", demo_set)
    session = engine._backend._session("codec_vq")
    wav = session.run(["wav"], {"codes": reference.vectors["greedy_spk_pen1.05_0_codes"].T[None].copy()})[0][0]
    assert snr(reference.vectors["codec_vq_wav"], wav) > 100


def test_decoder_and_dvae_make_different_sound_of_the_same_codes(engine):
    decoder, dvae = (engine.synthesize(TEXT, seed=7, use_decoder=flag) for flag in (True, False))
    assert decoder.steps == dvae.steps
    assert not np.array_equal(decoder.samples, dvae.samples)


def test_voices_differ_and_may_be_given_as_name_string_or_voice(engine):
    assert list(engine.voices) == ["adam", "bella"]
    bella = engine.voices["bella"]
    byname, bystring, byvoice = (
        engine.synthesize(TEXT, seed=1, voice=voice).samples for voice in ("bella", bella.to_string(), bella)
    )
    assert np.array_equal(byname, bystring)
    assert np.array_equal(byname, byvoice)
    default, adam = (engine.synthesize(TEXT, seed=1, **extra).samples for extra in ({}, {"voice": "adam"}))
    assert np.array_equal(default, adam)
    assert byname.shape != adam.shape or not np.array_equal(byname, adam)


@pytest.mark.parametrize(
    ("voice", "message"),
    [
        ("carol", "adam, bella"),
        ("42", "no voice named"),
        ("安娜", "no voice named '安娜'. Named voices: adam, bella"),
        (Voice.from_vector([1.0] * 255), "256"),
    ],
)
def test_wrong_voice_is_refused(engine, voice, message):
    with pytest.raises(VoiceError, match=message):
        engine.synthesize(TEXT, voice=voice)


@pytest.mark.parametrize("text", ["你好", "hello 世界", "", "  \n", "?!", "[uv_break]", "café"])
def test_text_the_voice_cannot_speak_is_refused(engine, text):
    with pytest.raises(TextError):
        engine.synthesize(text)


def test_a_long_text_is_spoken_in_segments_that_fit_the_capacity(tiny_set):
    """T13: 400 words without a mark; each segment is stopped after a few steps."""
    stages = []
    with Engine.load(tiny_set) as small:
        audio = small.synthesize("word " * 400, seed=1, max_steps=3, progress=stages.append)
        assert len(stages) > 5 and stages[-1] == f"speaking {len(stages)}/{len(stages)}"
        assert audio.text == ("word " * 400).strip()
        assert audio.steps == 3 * len(stages) and audio.truncated
        with pytest.raises(CapacityError, match="positions per sequence"):
            small.synthesize("the", min_steps=5000)


def test_sentences_are_what_they_are_alone_with_silence_between(engine):
    """The noise of a later segment is another, so only the first one equals its solo run."""
    first, second = "good morning.", "turn the fan on."
    whole = engine.synthesize(f"{first} {second}", seed=5)
    alone = engine.synthesize(first, seed=5)
    pause = round(SENTENCE_PAUSE * 24000)
    assert snr(alone.samples, whole.samples[: alone.samples.size]) > 60
    silence = whole.samples[alone.samples.size : alone.samples.size + pause]
    assert not silence.any()
    rest = whole.samples[alone.samples.size + pause :]
    assert rest.size == 256 * (2 * (whole.steps - alone.steps) - 1)
    assert np.abs(rest).max() > 0.01
    assert (whole.text, whole.truncated) == (f"{first} {second}", False)


def test_a_long_text_sounds_the_same_whatever_the_batch(engine):
    text = "good morning. it is ten past three. turn the fan on. where is the red battery? good evening."
    several = engine.synthesize(text, seed=3)
    frontend = engine._frontend
    requests = [
        frontend.request(part.text, SynthesisOptions(), 3, i)
        for i, part in enumerate(frontend.segments([text], SynthesisOptions()))
    ]
    one_at_a_time = [result for _, result in generate(engine._backend.runner, requests, 1)]
    assert several.steps == sum(len(result.codes) for result in one_at_a_time)


def test_paragraphs_stand_further_apart_and_ornaments_are_passed_over(engine):
    audio = engine.synthesize("good morning\r\n\r\n* * *\n \nturn the\nfan on", seed=5)
    first = engine.synthesize("good morning", seed=5)
    assert audio.text == "good morning\n\nturn the fan on"
    pause = round(PARAGRAPH_PAUSE * 24000)
    assert not audio.samples[first.samples.size :][:pause].any()
    assert audio.samples.size == first.samples.size + pause + 256 * (2 * (audio.steps - first.steps) - 1)


def test_warnings_of_a_long_text_name_the_segment(engine):
    audio = engine.synthesize("good morning. turn the fan on.", seed=5, max_steps=10)
    assert [warning for warning in audio.warnings if warning.startswith("'turn the fan on.': stopped at the limit")]
    assert audio.truncated


def test_full_capacity_is_used_and_reported_as_truncated(tiny_set):
    """The tiny checkpoint has random weights and never ends within these limits by itself."""
    with Engine.load(tiny_set) as small:
        capacity = small.info.limits.capacity
        audio = small.synthesize("the", seed=0, temperature=0.0, min_steps=capacity - 20)
        assert audio.truncated
        assert 0 < capacity - audio.steps < 20
        assert any("limit" in warning for warning in audio.warnings)
        with pytest.raises(CapacityError):
            small.synthesize("the", min_steps=capacity)


def test_options_object_and_overrides_combine(engine):
    options = SynthesisOptions(seed=7, voice="bella")
    assert np.array_equal(
        engine.synthesize(TEXT, options, seed=9).samples, engine.synthesize(TEXT, voice="bella", seed=9).samples
    )
    with pytest.raises(UsageError, match="tempo"):
        engine.synthesize(TEXT, tempo=2)
    with pytest.raises(UsageError, match="list of texts"):
        engine.synthesize_batch(TEXT)


def test_options_without_effect_are_reported(engine):
    audio = engine.synthesize(TEXT, seed=7, speed=9, top_k=200, laugh=2)
    assert any("laugh" in warning for warning in audio.warnings)
    assert any("speed" in warning for warning in audio.warnings)
    assert any("top_k 200" in warning for warning in audio.warnings)


@pytest.mark.parametrize("text", ["a", "hi", "no."])
def test_very_short_text_is_heard_or_reported(engine, text):
    audio = engine.synthesize(text, seed=3)
    assert audio.duration > 0
    assert audio.steps >= 6 or any("may not know this text" in warning for warning in audio.warnings)


def test_eight_threads_get_their_serial_results(engine):
    serial = [engine.synthesize(TEXT, seed=seed).samples for seed in range(8)]
    found = [None] * 8

    def speak(seed):
        found[seed] = engine.synthesize(TEXT, seed=seed).samples

    at_once(speak, range(8))
    assert all(np.array_equal(a, b) for a, b in zip(serial, found, strict=True))


def test_an_error_does_not_spoil_the_next_call(engine):
    before = engine.synthesize(TEXT, seed=7).samples
    for wrong in ({"voice": "nobody"}, {"min_steps": 5000}):
        with pytest.raises(TrtTtsError):
            engine.synthesize(TEXT, **wrong)
    assert np.array_equal(engine.synthesize(TEXT, seed=7).samples, before)


def test_failed_text_leaves_the_results_of_its_mates(engine, monkeypatch):
    texts = [TEXT, "good morning", "hello world"]
    alone = engine.synthesize("hello world", seed=7)
    prepare = Engine._prepare

    def poisoned(self, text, options):
        job = prepare(self, text, options)
        if text == "good morning":
            return replace(job, requests=(spoiled(job.requests[0], where=2),))
        return job

    monkeypatch.setattr(Engine, "_prepare", poisoned)
    with pytest.raises(GenerationError, match="good morning") as failure:
        engine.synthesize_batch(texts, seed=7)
    first, second, third = failure.value.finished
    assert (first.text, second) == (TEXT, None)
    assert np.array_equal(third.samples, alone.samples)


def test_random_voice_is_a_function_of_its_seed_and_speaks(tiny_set):
    with Engine.load(tiny_set) as small:
        assert small.random_voice(3) == small.random_voice(3) != small.random_voice(4)
        default = small.synthesize("the", seed=1, max_steps=4)
        assert np.array_equal(
            small.synthesize("the", seed=1, max_steps=4, voice=small.random_voice(0)).samples, default.samples
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((["hi"], {"seed": 1}), "dict"), ((None,), "list of texts"), ((5,), "list of texts")],
)
def test_wrong_batch_arguments_are_refused(engine, arguments, message):
    with pytest.raises(UsageError, match=message):
        engine.synthesize_batch(*arguments)


def test_refined_text_is_spoken_and_reported(tiny_set):
    with Engine.load(tiny_set) as small:
        first, again = (small.synthesize("the engine is ready", refine=True, seed=4, max_steps=5) for _ in range(2))
        plain = small.synthesize("the engine is ready", seed=4, max_steps=5)
    assert first.text == again.text != plain.text
    assert plain.text == "the engine is ready"


def test_info_says_what_runs_and_why(engine, demo_set):
    info = engine.info
    assert (info.backend, info.precision, info.path, info.limits.max_batch) == ("cpu", "fp32", demo_set, 4)
    assert "CPU" in info.reason
    memory = {part.name: part.bytes for part in info.memory if part.resident}
    assert memory["KV cache"] == 5 * 2 * 256 * 4 * 2048 * 4
    for name in ("gpt", "codec"):
        weights = (demo_set / f"{name}.weights").stat().st_size
        assert memory[f"{name} weights"] == pytest.approx(weights, rel=0.03)


def test_closed_engine_refuses_and_closing_twice_is_harmless(demo_set):
    loaded = Engine.load(demo_set)
    loaded.close()
    loaded.close()
    with pytest.raises(TrtTtsError, match="closed"):
        loaded.synthesize(TEXT)


@pytest.mark.parametrize(
    "wrong",
    [{"backend": "tpu"}, {"threads": 0}, {"threads": 100_000}, {"threads": "2"}, {"threads": True}, {"device": -1}],
)
def test_wrong_load_arguments_are_refused(demo_set, wrong):
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        Engine.load(demo_set, **wrong)


MEMORY_SCRIPT = """
import sys, numpy, psutil
from trt_tts.cpu.session import open_session

codec, hidden = open_session(sys.argv[1] + "/codec.onnx", 2), numpy.ones((1, 300, 256), numpy.float32)
call = lambda length: codec.run(None, {"hidden": hidden[:, :length]})
call(300)
resident, count = [], 240
for length in numpy.random.default_rng(0).permutation(count) + 1:
    call(int(length))
    resident.append(psutil.Process().memory_info().rss)
print(int(numpy.median(resident[count // 2 :]) - numpy.median(resident[: count // 2])))
"""


def test_memory_stays_flat_over_codec_calls_of_every_length(demo_set):
    """Every call has a new shape; what a runtime keeps per shape piles up here. In a process of its own."""
    command = [sys.executable, "-c", MEMORY_SCRIPT, str(demo_set)]
    growth = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert growth < 4e6


def test_public_names_are_importable():
    assert all(hasattr(trt_tts, name) for name in trt_tts.__all__)
