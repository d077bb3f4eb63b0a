import contextlib
import dataclasses
import json
import lzma
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from trt_tts import base16384
from trt_tts.demo import demo_checkpoint
from trt_tts.errors import VoiceError
from trt_tts.voice import SpeakerStatistics, Voice

REFERENCE = Path(__file__).parent / "reference"
CHECKPOINTS = {"tiny": REFERENCE / "tiny", "demo_voice": demo_checkpoint()}
SPEAKER_STRING = json.loads((REFERENCE / "tiny" / "cases.json").read_text("utf-8"))["speaker_string"]
RAW_LZMA2 = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]


def reference(name):
    cases = json.loads((REFERENCE / name / "cases.json").read_text("utf-8"))
    with np.load(REFERENCE / name / "vectors.npz") as vectors:
        return cases["speaker_string"], vectors["speaker_vector_f16"], vectors["speaker_std_mean"]


def statistics(name="tiny"):
    text = json.loads((CHECKPOINTS[name] / "config.json").read_text("utf-8"))["spk_stat"]
    return text, SpeakerStatistics.from_string(text)


def string_of(data):
    return base16384.encode(lzma.compress(data, format=lzma.FORMAT_RAW, filters=RAW_LZMA2))


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_published_voice_string_gives_the_published_vector_and_back(name):
    text, vector, _ = reference(name)
    voice = Voice.from_string(text)
    assert voice.vector.dtype == np.float16
    assert voice.vector.tobytes() == vector.tobytes()
    assert voice.to_string() == text


def test_white_space_around_a_voice_string_is_ignored():
    assert Voice.from_string(f"  {SPEAKER_STRING}\n") == Voice.from_string(SPEAKER_STRING)


@given(npst.arrays(np.float16, st.integers(1, 100), elements=st.floats(-100, 100, width=16)))
def test_any_vector_survives_its_string(vector):
    if not vector.any():
        vector[0] = 1
    assert Voice.from_string(Voice.from_vector(vector).to_string()).vector.tobytes() == vector.tobytes()


def test_a_truncated_voice_string_is_an_error_and_never_another_voice():
    """Losing only the tail marker can be harmless: the compressed data before it is whole."""
    expected = Voice.from_string(SPEAKER_STRING).data
    for keep in range(len(SPEAKER_STRING) - 1):
        with pytest.raises(VoiceError):
            Voice.from_string(SPEAKER_STRING[:keep])
    with contextlib.suppress(VoiceError):
        assert Voice.from_string(SPEAKER_STRING[:-1]).data == expected


def test_a_voice_string_without_its_beginning_is_an_error():
    for first in range(1, len(SPEAKER_STRING)):
        with pytest.raises(VoiceError):
            Voice.from_string(SPEAKER_STRING[first:])


@pytest.mark.parametrize(
    "text",
    ["", "   ", "42", "adam", "你好世界", None, 42, 0.5, b"abc", [1.0], "😀", "\ud800", "蘁淰敥欀欂"],
)
def test_what_is_no_voice_string_is_an_error(text):
    with pytest.raises(VoiceError, match="voice string"):
        Voice.from_string(text)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "empty"),
        (b"\x00", "1 bytes"),
        (np.zeros(64, "<f2").tobytes(), "all zero"),
        (np.array([1, np.nan], "<f2").tobytes(), "NaN"),
        (np.array([1, np.inf], "<f2").tobytes(), "infinite"),
    ],
)
def test_a_voice_string_with_unusable_content_is_an_error(data, match):
    with pytest.raises(VoiceError, match=match):
        Voice.from_string(string_of(data))


@given(st.binary(max_size=80))
def test_any_bytes_behind_a_voice_string_give_a_voice_or_a_voice_error(data):
    with contextlib.suppress(VoiceError):
        assert np.isfinite(Voice.from_string(base16384.encode(data)).vector).all()


@pytest.mark.parametrize(
    "vector",
    [
        [],
        [0.0, 0.0],
        [1e-9, -1e-9],
        [1.0, np.nan],
        [1.0, np.inf],
        [1.0, -np.inf],
        [1.0, 70_000.0],
        [1.0, 10**400],
        [[1.0, 2.0], [3.0, 4.0]],
        [[1.0], [2.0, 3.0]],
        np.ones((1, 64)),
        np.array([1 + 2j, 1 - 2j]),
        5,
        None,
        "adam",
        b"adam",
        {"a": 1.0},
        [1.0, "x"],
        [1.0, None],
        object(),
    ],
    ids=lambda vector: repr(vector)[:24],
)
def test_an_unusable_vector_is_an_error(vector):
    with pytest.raises(VoiceError, match="voice vector"):
        Voice.from_vector(vector)


@pytest.mark.parametrize("width", [63, 65, 768])
def test_a_voice_of_another_width_is_refused_with_both_widths(width):
    with pytest.raises(VoiceError, match=rf"\b64\b.*\b{width}\b"):
        Voice.from_string(SPEAKER_STRING).checked(width)


def test_a_voice_of_the_right_width_passes():
    voice = Voice.from_string(SPEAKER_STRING)
    assert voice.checked(64) is voice


def test_voices_compare_and_hash_by_value():
    one, same = Voice.from_vector([1, 2, 3]), Voice.from_vector(np.array([1.0, 2.0, 3.0]))
    assert one == same
    assert hash(one) == hash(same)
    assert {one: "found"}[same] == "found"
    assert one != Voice.from_vector([1, 2, 3.5])


def test_a_voice_cannot_be_changed():
    voice = Voice.from_vector([1, 2, 3])
    with pytest.raises(dataclasses.FrozenInstanceError):
        voice.data = b""
    with pytest.raises(ValueError, match="read-only"):
        voice.vector[0] = 9


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_normalised_vector_is_the_float16_unit_vector(name):
    _, vector, _ = reference(name)
    unit = Voice.from_vector(vector).normalised()
    exact = vector.astype(np.float64) / np.linalg.norm(vector.astype(np.float64))
    assert unit.dtype == np.float32
    assert np.linalg.norm(unit) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(unit, exact, rtol=2e-3, atol=1e-6)
    assert (unit == unit.astype(np.float16)).all()


@pytest.mark.parametrize("value", [1e-6, 0.01, 1.0, 255.0, 300.0, 8000.0])
def test_the_normalised_vector_has_norm_one_at_any_scale(value):
    assert np.linalg.norm(Voice.from_vector([value] * 64).normalised()) == pytest.approx(1, abs=5e-3)


def test_a_vector_whose_norm_exceeds_float16_is_an_error():
    """64 x 60000 has the norm 480000: dividing by it in float16 would silently give the zero vector."""
    with pytest.raises(VoiceError):
        Voice.from_vector([60_000.0] * 64).normalised()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_speaker_statistics_equal_the_published_ones(name):
    text, stats = statistics(name)
    _, _, std_mean = reference(name)
    np.testing.assert_array_equal(stats.std, std_mean[0])
    np.testing.assert_array_equal(stats.mean, std_mean[1])
    assert stats.to_string() == text
    assert stats.checked(std_mean.shape[1]) is stats


@pytest.mark.parametrize("text", ["", "abc", base16384.encode(bytes(6)), base16384.encode(bytes(3)), None, 5, ["a"]])
def test_malformed_speaker_statistics_are_an_error(text):
    with pytest.raises(VoiceError):
        SpeakerStatistics.from_string(text)


def test_speaker_statistics_of_another_width_are_refused():
    with pytest.raises(VoiceError, match=r"\b64\b.*\b768\b"):
        statistics()[1].checked(768)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["std", "mean"])
def test_speaker_statistics_that_are_not_finite_are_refused(bad, field):
    values = {"std": np.ones(4, np.float32), "mean": np.ones(4, np.float32)}
    values[field][2] = bad
    with pytest.raises(VoiceError, match="NaN"):
        SpeakerStatistics(**values).checked(4)


def test_a_random_voice_is_a_fixed_function_of_the_seed():
    stats = statistics()[1]
    assert Voice.random(stats, 7) == Voice.random(statistics()[1], 7)
    assert len({Voice.random(stats, seed).data for seed in range(50)}) == 50


def test_random_voices_of_neighbouring_large_seeds_differ():
    stats = statistics()[1]
    assert Voice.random(stats, 2**62).data != Voice.random(stats, 2**62 + 1).data


def test_the_random_voice_of_seed_zero_is_pinned():
    vector = Voice.random(statistics()[1], 0).vector
    assert vector.size == 64
    assert vector[:3].tolist() == [0.8984375, -0.60888671875, -3.6171875]


def test_random_voices_follow_the_statistics():
    stats = SpeakerStatistics(np.array([2.0, 0.5], np.float32), np.array([10.0, -3.0], np.float32))
    draws = np.array([Voice.random(stats, seed).vector for seed in range(3000)], np.float64)
    np.testing.assert_allclose(draws.mean(axis=0), stats.mean, atol=0.15)
    np.testing.assert_allclose(draws.std(axis=0), stats.std, rtol=0.06)
