"""Voices from recordings, as strings and as prompts."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference_case import Reference
from trt_tts import SynthesisOptions, Voice, VoiceError, VoiceSample, base16384
from trt_tts.model_config import GptConfig
from trt_tts.voice_string import pack

SIZES = GptConfig()


@pytest.fixture(scope="module", params=["tiny", "demo_voice"])
def published(request, tmp_path_factory):
    return Reference.of(request.param, tmp_path_factory.getbasetemp())


def string_of(codes, rows=None, columns=None):
    codes = np.asarray(codes, "<u2")
    return pack(codes.tobytes(), struct.pack("<HH", rows or codes.shape[0], columns or codes.shape[1]))


def test_published_strings_are_read_and_written_alike(published):
    text = published.cases["voice_prompt_string"]
    sample = VoiceSample.from_string(text, "reference text")
    assert np.array_equal(sample.codes, published.vectors["encoder_codes"])
    assert sample.codes.dtype == np.int32
    assert sample.to_string() == text
    assert sample == VoiceSample.from_codes(published.vectors["encoder_codes"], "reference text")
    assert sample.seconds == pytest.approx(sample.steps * 512 / 24_000)


def test_each_kind_of_string_names_the_other(published):
    sample, speaker = published.cases["voice_prompt_string"], published.cases["speaker_string"]
    with pytest.raises(VoiceError, match=r"audio-sample string.*VoiceSample\.from_string"):
        Voice.from_string(sample)
    with pytest.raises(VoiceError, match=r"speaker string.*Voice\.from_string"):
        VoiceSample.from_string(speaker, "words")


def test_a_truncated_string_is_an_error(published):
    text = published.cases["voice_prompt_string"]
    for keep in range(len(text) - 1):
        with pytest.raises(VoiceError):
            VoiceSample.from_string(text[:keep], "words")


@pytest.mark.parametrize("text", ["", "  ", "42", "adam", "你好世界", None, 42, b"abc", "\ud800"])
def test_what_is_no_string_of_a_sample_is_an_error(text):
    with pytest.raises(VoiceError, match="voice string"):
        VoiceSample.from_string(text, "words")


@pytest.mark.parametrize(("rows", "columns"), [(3, None), (None, 9), (1, 65535)])
def test_a_string_that_claims_another_shape_is_an_error(rows, columns):
    with pytest.raises(VoiceError, match="damaged"):
        VoiceSample.from_string(string_of(np.ones((4, 8)), rows, columns), "words")


@given(st.binary(max_size=80))
def test_any_bytes_give_a_sample_or_a_voice_error(data):
    with contextlib.suppress(VoiceError):
        assert VoiceSample.from_string(base16384.encode(data), "words").codes.size


@given(st.integers(1, 5), st.integers(1, 40), st.integers(0, 99))
def test_codes_survive_the_string(books, steps, seed):
    codes = np.random.default_rng(seed).integers(0, 625, (books, steps))
    assert np.array_equal(VoiceSample.from_string(VoiceSample.from_codes(codes, "a").to_string(), "a").codes, codes)


@pytest.mark.parametrize(
    "codes",
    [[], [[]], np.zeros((4, 0), int), np.zeros(8, int), np.zeros((4, 8)), [[1], [2, 3]], [[-1]], [[70_000]], None, "a"],
)
def test_what_are_no_codes_is_an_error(codes):
    with pytest.raises(VoiceError, match="codes"):
        VoiceSample.from_codes(codes, "words")


@pytest.mark.parametrize("shape", [(4, 20_000), (1, 65_536), (65_536, 1)])
def test_more_codes_than_a_string_holds_are_refused(shape):
    with pytest.raises(VoiceError, match=f"at most 65535 codes, found {shape[0] * shape[1]}"):
        VoiceSample.from_codes(np.ones(shape, int), "words")


@pytest.mark.parametrize("shape", [(4, 16_383), (1, 65_535), (65_535, 1)])
def test_as_many_codes_as_a_string_holds_survive_it(shape):
    codes = np.random.default_rng(0).integers(0, 625, shape)
    assert np.array_equal(VoiceSample.from_string(VoiceSample.from_codes(codes, "a").to_string(), "a").codes, codes)


@pytest.mark.parametrize("books", ["4", 2.0, None, 0, -1, 3])
def test_a_sample_made_by_hand_must_be_whole(books):
    with pytest.raises(VoiceError, match="from_codes"):
        VoiceSample(bytes(8), books, "words")


@pytest.mark.parametrize("transcript", ["", "  ", "...", None, 5])
def test_a_sample_needs_its_transcript(transcript):
    with pytest.raises(VoiceError, match="transcript"):
        VoiceSample.from_codes(np.ones((4, 8), int), transcript)


@pytest.mark.parametrize("codes", [np.ones((3, 8), int), np.full((4, 8), 625)])
def test_a_sample_of_another_model_is_refused(codes):
    with pytest.raises(VoiceError, match="624"):
        VoiceSample.from_codes(codes, "a").checked(SIZES)


def test_a_prompt_with_a_sample_is_the_published_one(tiny_engine):
    """With the reference's text and sampling, the codes are the reference's: tests/cpu/test_gpt.py has the loop."""
    published = Reference.of("tiny", tiny_engine.info.path)
    sample = VoiceSample.from_string(published.cases["voice_prompt_string"], "reference text")
    text = published.cases["texts"][0]
    ours = tiny_engine._frontend.request(text, SynthesisOptions(voice=sample), 0).prompt()
    codes = published.vectors["encoder_codes"].T
    theirs = published.request(f"[Stts][empty_spk]reference text[speed_5]{text}[Ptts]", codes=codes).prompt()
    for one, other in ((ours.embedded, theirs.embedded), (ours.codes, theirs.codes), (ours.is_code, theirs.is_code)):
        assert np.array_equal(one, other)


def test_every_segment_has_the_sample_and_room_for_its_speech(tiny_engine):
    frontend, capacity = tiny_engine._frontend, tiny_engine.info.limits.capacity
    sample = VoiceSample.from_codes(np.ones((4, 150), int), "what is said")
    options = SynthesisOptions(voice=sample)
    prepared = frontend.prepare("the engine is ready and " * 20, options)
    assert len(prepared.segments) > len(frontend.prepare("the engine is ready and " * 20, SynthesisOptions()).segments)
    for segment in prepared.segments:
        request = frontend.request(segment.text, options, 0)
        prompt = request.prompt()
        assert np.array_equal(prompt.codes[-150:].T, sample.codes)
        assert prompt.is_code.sum() == 150
        assert len(prompt.is_code) + request.max_steps == capacity


def test_a_sample_that_leaves_no_room_is_refused_with_its_length(tiny_engine):
    sample = VoiceSample.from_codes(np.ones((4, tiny_engine.info.limits.capacity), int), "what is said")
    with pytest.raises(VoiceError, match=r"voice sample of .* s takes .* allowed"):
        tiny_engine.synthesize("hello", voice=sample)


def test_a_sample_speaks_and_gives_another_voice(tiny_engine):
    sample = VoiceSample.from_codes(np.random.default_rng(0).integers(0, 625, (4, 60)), "what is said, 12 times")
    one, two = (tiny_engine.synthesize("hello there", voice=voice, seed=1, max_steps=20) for voice in (sample, None))
    assert one.samples.size and not np.array_equal(one.samples[:4000], two.samples[:4000])
    again = tiny_engine.synthesize("hello there", voice=sample, seed=1, max_steps=20)
    assert np.array_equal(one.samples, again.samples)


def test_what_is_left_out_of_the_transcript_is_said_once(tiny_engine):
    sample = VoiceSample.from_codes(np.ones((4, 20), int), "what is said \u2603")
    audio = tiny_engine.synthesize("hello there\n\nand again", voice=sample, seed=1, max_steps=8)
    about = [item for item in audio.warnings if item.startswith("the voice sample's transcript: left out")]
    assert len(about) == 1 and "\u2603" in about[0]
    plain = VoiceSample.from_codes(np.ones((4, 20), int), "what is said")
    assert not any("transcript" in item for item in tiny_engine.synthesize("hello", voice=plain, max_steps=8).warnings)


def test_a_checkpoint_of_one_prompt_form_says_that_it_knows_no_samples(engine):
    sample = VoiceSample.from_codes(np.ones((4, 60), int), "good morning")
    audio = engine.synthesize("good morning", voice=sample, seed=1, max_steps=20)
    assert any("voice samples" in warning for warning in audio.warnings)
    with pytest.raises(VoiceError, match="codes"):
        engine.synthesize("good morning", voice=VoiceSample.from_codes(np.ones((2, 60), int), "good morning"))
