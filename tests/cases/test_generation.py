"""G4 to G18: what goes wrong while codes are generated."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from tests.prompts import spoiled
from tests.threads import at_once
from trt_tts import Engine, GenerationError, SynthesisOptions, TrtTtsError, Voice, VoiceError
from trt_tts.random_numbers import gumbel_noise
from trt_tts.speaking import Speaker

TEXT = "the engine is ready"


def test_g4_no_seed_ends_in_nothing(tiny_engine):
    """An end at the first step is not drawn."""
    for seed in range(12):
        audio = tiny_engine.synthesize("hi", seed=seed, temperature=3.0, top_p=1.0, top_k=50, max_steps=4)
        assert audio.steps >= 1 and audio.samples.size > 0


def test_g4_a_model_that_ends_as_soon_as_it_may_gives_a_short_result_that_says_so(tiny_engine, monkeypatch):
    runner = tiny_engine._backend.runner

    def ending(call, rows):
        def run(*arguments):
            allowed, drawn = runner.allow_end[rows(*arguments)].copy(), call(*arguments)
            end = np.full((len(allowed), 4), runner.sizes.end_code, np.int32)
            return SimpleNamespace(codes=lambda: np.where(allowed[:, None], end, drawn.codes()))

        return run

    monkeypatch.setattr(runner, "prefill", ending(runner.prefill, lambda row, *_: [row]))
    monkeypatch.setattr(runner, "step", ending(runner.step, lambda count: slice(count)))
    audio = tiny_engine.synthesize("hi there", seed=1)
    assert (audio.steps, audio.samples.size, audio.truncated) == (1, 256, False)
    assert any("only 0.02 s of sound" in warning for warning in audio.warnings)
    assert tiny_engine.synthesize("hi there", seed=1, min_steps=5).steps == 5
    assert sum(chunk.samples.size for chunk in tiny_engine.stream("hi there", seed=1)) == 256


@pytest.mark.parametrize("text", ["a", "ok", "hi?"])
def test_g5_a_few_letters_sound_or_the_result_says_that_they_may_not(engine, text):
    audio = engine.synthesize(text, seed=3)
    assert audio.samples.size > 0
    assert audio.duration > 0.15 or audio.warnings


@pytest.mark.parametrize("text", ["好", "你好", "好吗？"])
def test_g5_so_do_a_few_chinese_characters(tiny_engine, text):
    assert tiny_engine.synthesize(text, seed=3, max_steps=30).samples.size > 0


def test_g6_the_step_limit_is_on_the_result(engine):
    audio = engine.synthesize(TEXT, seed=1, max_steps=5)
    assert audio.truncated and any("limit of 5 steps" in warning for warning in audio.warnings)
    whole = engine.synthesize(TEXT, seed=1)
    assert not whole.truncated and not whole.warnings


def test_g9_noise_and_voices_are_fixed_functions_of_their_seed(tiny_engine):
    assert gumbel_noise(7, 0, 3, 4).tolist() == pytest.approx(NOISE, rel=1e-6)
    assert tiny_engine.random_voice(0).vector[:3].tolist() == VOICE


NOISE = [0.19449441134929657, -0.5865780115127563, 4.025542736053467, 0.26597392559051514]
VOICE = [0.8984375, -0.60888671875, -3.6171875]


def test_g9_another_engine_of_the_set_gives_the_same_speech(engine, demo_set):
    with Engine.load(demo_set) as other:
        one, two = (loaded.synthesize(TEXT, seed=5, voice="bella") for loaded in (engine, other))
    assert np.array_equal(one.samples, two.samples)


def test_g11_every_segment_has_the_same_voice_bytes(engine):
    options = SynthesisOptions(seed=1, voice="bella")
    requests = engine._prepare("good morning. good evening. the train is late.", options).requests
    voice = engine.voices["bella"].normalised().tobytes()
    assert [[row.tobytes() for row in item.prompt().embedded].count(voice) for item in requests] == [1, 1, 1]


@pytest.mark.parametrize("text", ["", " ", "42", "nobody", "你好世界", "蘁淰敥欀欂"])
def test_g12_a_wrong_voice_string_is_an_error_that_says_what_one_is(engine, text):
    with pytest.raises(VoiceError, match=r"voice string|speaker string"):
        engine.synthesize(TEXT, voice=text)


@pytest.mark.parametrize("end", [1, 60, -9])
def test_g12_a_truncated_voice_string_is_an_error_and_never_another_voice(engine, end):
    with pytest.raises(VoiceError, match="voice string"):
        engine.synthesize(TEXT, voice=engine.voices["bella"].to_string()[:end])


@pytest.mark.parametrize(
    ("vector", "message"),
    [(np.ones(767), "767"), (np.zeros(256), "all zero"), (np.full(256, np.nan), "NaN"), (5, "list of numbers|one-dim")],
)
def test_g12_so_is_a_wrong_vector(engine, vector, message):
    with pytest.raises(VoiceError, match=message):
        engine.synthesize(TEXT, voice=Voice.from_vector(vector))


def test_g13_speaking_imports_neither_torch_nor_transformers(tiny_set):
    code = (
        "import sys; from trt_tts import Engine; Engine.load(sys.argv[1]).synthesize('3 hi', seed=1, max_steps=2);"
        "print(sorted({'torch', 'transformers', 'onnx'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tiny_set)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_g14_numbers_that_are_not_finite_fail_their_text_alone(engine, monkeypatch):
    texts = ["good morning", TEXT, "good evening"]
    alone = [engine.synthesize(text, seed=7).samples for text in texts]
    prepare = Engine._prepare

    def poisoned(self, text, options):
        job = prepare(self, text, options)
        return (
            job
            if text != TEXT
            else type(job)(
                job.text, job.warnings, job.seed, job.segments, tuple(spoiled(item, where=2) for item in job.requests)
            )
        )

    monkeypatch.setattr(Engine, "_prepare", poisoned)
    with pytest.raises(GenerationError, match="finite") as caught:
        engine.synthesize_batch(texts, seed=7)
    first, second, third = caught.value.finished
    assert second is None
    assert np.array_equal(first.samples, alone[0]) and np.array_equal(third.samples, alone[2])


def test_g15_sampling_options_at_their_ends_take_the_likeliest_code(tiny_engine):
    likeliest = tiny_engine.synthesize("hi", seed=1, temperature=0.0, max_steps=12).samples
    for seed, temperature in ((2, 0.0), (3, 1e-12), (4, 1e-6)):
        found = tiny_engine.synthesize("hi", seed=seed, temperature=temperature, max_steps=12).samples
        assert np.array_equal(found, likeliest)
    for seed, options in enumerate(({"top_k": 1}, {"top_p": 1e-9}, {"top_p": 0.0})):
        found = tiny_engine.synthesize("hi", seed=seed, max_steps=12, **options).samples
        assert np.array_equal(found, likeliest)
    for options in ({"top_k": 1_000_000}, {"top_k": 0}, {"top_p": 1.0}):
        assert tiny_engine.synthesize("hi", seed=1, max_steps=3, **options).steps == 3
    assert any("top_k" in warning for warning in tiny_engine.synthesize("hi", top_k=51, max_steps=2).warnings)


def test_g16_refining_is_off_and_its_text_is_on_the_result(tiny_engine):
    assert SynthesisOptions().refine is False
    plain = tiny_engine.synthesize("今天天气很好", seed=4, max_steps=3)
    refined = tiny_engine.synthesize("今天天气很好", seed=4, max_steps=3, refine=True)
    assert plain.text == "今天天气很好" != refined.text


def test_g17_eight_threads_get_what_each_gets_alone(tiny_engine):
    calls = [
        {"text": "hi there " * (1 + i % 3), "seed": i, "max_steps": 8 + i, "voice": tiny_engine.random_voice(i)}
        for i in range(8)
    ]
    alone = [tiny_engine.synthesize(**call) for call in calls]
    together = {}

    def call(index):
        for _ in range(3):
            together.setdefault(index, []).append(tiny_engine.synthesize(**calls[index]).samples)

    at_once(call, range(8))
    assert all(np.array_equal(found, alone[index].samples) for index in range(8) for found in together[index])


def test_g18_closing_a_stream_frees_its_rows_and_harms_no_other(tiny_engine):
    options = {"seed": 2, "min_steps": 60, "max_steps": 60}
    wanted = tiny_engine.synthesize("hi there", **options).samples
    kept, dropped = tiny_engine.stream("hi there", **options), tiny_engine.stream("go away", **options)
    chunks = [next(kept)]
    next(dropped)
    dropped.close()
    chunks += kept
    assert np.array_equal(np.concatenate([chunk.samples for chunk in chunks]), wanted)
    speaker: Speaker = tiny_engine._speaker
    assert not speaker._loop.busy, "no row is left behind"
    with pytest.raises(TrtTtsError):
        tiny_engine.synthesize("hi", min_steps=10_000)
    assert np.array_equal(tiny_engine.synthesize("hi there", **options).samples, wanted)
