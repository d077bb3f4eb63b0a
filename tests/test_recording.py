"""From a user's recording to the codes of a voice sample."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference_case import Reference
from trt_tts import TextError, UsageError, VoiceError
from trt_tts.recording import prepare_recording


def tone(seconds=2.0, rate=24_000, hertz=440.0):
    return (0.5 * np.sin(2 * np.pi * hertz * np.arange(round(seconds * rate)) / rate)).astype(np.float32)


def test_a_recording_at_the_models_rate_is_taken_as_it_is():
    assert np.array_equal(prepare_recording(tone(), 24_000), tone())


@pytest.mark.parametrize("rate", [8000, 16_000, 22_050, 44_100, 48_000, 96_000, 192_000])
def test_any_rate_becomes_the_models(rate):
    found = prepare_recording(tone(rate=rate), rate)
    assert found.dtype == np.float32 and abs(len(found) - 48_000) <= 1
    middle, wanted = found[4000:44_000], tone()[4000:44_000]
    assert np.abs(middle - wanted).max() < 0.01


def test_channels_are_mixed_and_integers_scaled():
    one = tone()
    assert np.allclose(prepare_recording(np.stack([one, np.zeros_like(one)], axis=1), 24_000), one / 2)
    for kind in (np.int16, np.int32):
        whole = (one.astype(np.float64) * np.iinfo(kind).max).astype(kind)
        assert np.allclose(prepare_recording(whole, 24_000), one, atol=1e-4)


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (tone(0.5), "0.50 s"),
        (tone(21), "21.00 s"),
        (np.zeros(0, np.float32), "0.00 s"),
        (np.zeros(48_000, np.float32), "silent"),
        (tone() * 1e-3, "silent"),
        (np.full(48_000, np.nan, np.float32), "NaN"),
        (np.full(48_000, np.inf, np.float32), "NaN or infinite"),
    ],
)
def test_what_holds_no_voice_is_refused(samples, message):
    with pytest.raises(VoiceError, match=message):
        prepare_recording(samples, 24_000)


@pytest.mark.parametrize(
    "samples",
    [tone().reshape(2, -1), tone().reshape(2, 2, -1), 5, None, "a", [[1.0], [1.0, 2.0]], tone() > 0, tone() * 1j],
)
def test_what_is_no_recording_is_a_usage_error(samples):
    with pytest.raises(UsageError, match="samples"):
        prepare_recording(samples, 24_000)


@pytest.mark.parametrize("scale", [32_768, 2**31])
def test_floats_with_the_scale_of_integers_are_a_usage_error(scale):
    with pytest.raises(UsageError, match=r"samples reach .*Divide"):
        prepare_recording(tone() * scale, 24_000)


def test_a_clipped_recording_is_logged_and_taken(caplog):
    with caplog.at_level("WARNING", "trt_tts"):
        whole = prepare_recording(tone(), 24_000)
        assert not caplog.records and len(whole)
        loud = (np.clip(tone() * 4, -1, 1) * 32_767).astype(np.int16)
        assert np.allclose(prepare_recording(loud, 24_000), loud / 32_768)
    (record,) = caplog.records
    assert "clipped" in record.getMessage()


@pytest.mark.parametrize("rate", [7999, 192_001, 0, -1, 24_000.5, None, "24000", True])
def test_a_rate_out_of_range_is_a_usage_error(rate):
    with pytest.raises(UsageError, match="rate"):
        prepare_recording(tone(), rate)


@given(st.integers(8000, 192_000), st.floats(1.0, 20.0))
def test_no_recording_becomes_longer_than_the_encoder_takes(rate, seconds):
    found = prepare_recording(tone(min(seconds, 1.2), rate, 50.0), rate)
    assert found.size <= 480_000
    assert prepare_recording(np.full(20 * 8000, 0.5), 8000).size <= 480_000


def test_a_cloned_voice_has_the_published_codes(tiny_engine):
    published = Reference.of("tiny", tiny_engine.info.path)
    wav = published.vectors["encoder_wav"]
    before = tiny_engine.info.memory
    sample = tiny_engine.clone_voice(wav, 24_000, "reference text")
    assert np.array_equal(sample.codes, published.vectors["encoder_codes"])
    assert sample.to_string() == published.cases["voice_prompt_string"]
    assert sample.transcript == "reference text"
    assert len(tiny_engine.info.memory) >= len(before)
    assert tiny_engine.synthesize("hello", voice=sample, seed=0, max_steps=8).steps == 8


def test_a_recording_without_usable_words_is_refused(tiny_engine):
    for transcript in ("", "  ", None):
        with pytest.raises(VoiceError, match="transcript"):
            tiny_engine.clone_voice(tone(), 24_000, transcript)
    with pytest.raises(TextError):
        tiny_engine.clone_voice(tone(), 24_000, "\U00020bb7")
