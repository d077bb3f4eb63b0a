import io
import os
import struct
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tests.reference_case import snr
from trt_tts.audio import Audio
from trt_tts.errors import TrtTtsError, UsageError
from trt_tts.recording import read_recording

ENDINGS = (".wav", ".flac", ".ogg")
SAMPLES = npst.arrays(np.float32, st.integers(0, 64), elements=st.floats(width=32))


def audio(samples):
    return Audio(np.asarray(samples, np.float32), seed=7, steps=1, truncated=False, text="hi")


def half_scale_sine(count=24_000):
    return audio(0.5 * np.sin(2 * np.pi * 440 * np.arange(count) / 24_000))


@pytest.mark.parametrize(
    ("sample", "expected"),
    [
        (0.0, 0),
        (0.5, 16384),
        (-0.5, -16384),
        (1.0, 32767),
        (-1.0, -32768),
        (1.5, 32767),
        (-2.0, -32768),
        (32767 / 32768, 32767),
        (1 / 32768, 1),
        (-1 / 32768, -1),
        (0.4 / 32768, 0),
        (1e-5, 0),
        (np.nan, 0),
        (np.inf, 32767),
        (-np.inf, -32768),
        (3e38, 32767),
        (-3e38, -32768),
    ],
)
@pytest.mark.filterwarnings("error")
def test_pcm16_of_a_sample(sample, expected):
    pcm = audio([sample]).pcm16()
    assert pcm.dtype == np.int16
    assert pcm.tolist() == [expected]


@given(SAMPLES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_pcm16_is_within_half_a_step_of_the_clipped_input(samples):
    pcm = audio(samples).pcm16()
    exact = np.nan_to_num(np.clip(samples.astype(np.float64) * 32768, -32768, 32767), nan=0)
    assert pcm.shape == samples.shape
    assert np.all(np.abs(pcm - exact) <= 0.5)


def test_pcm16_leaves_the_samples_alone():
    sound = audio([0.25, np.nan, 2.0])
    before = sound.samples.tobytes()
    sound.pcm16()
    assert sound.samples.tobytes() == before


def test_near_zero_samples_are_kept():
    """Every sample counts for the timing, the silent ones too."""
    samples = np.zeros(1000, np.float32)
    samples[500:] = 1e-6
    assert audio(samples).pcm16().size == 1000


def test_wav_header_says_pcm16_mono_24000_with_the_right_sizes():
    data = half_scale_sine(1001).wav()
    riff, size, kind, chunk, chunk_size, form, channels, rate, byte_rate, align, bits = struct.unpack_from(
        "<4sI4s4sIHHIIHH", data
    )
    assert (riff, kind, chunk, chunk_size) == (b"RIFF", b"WAVE", b"fmt ", 16)
    assert size == len(data) - 8
    assert (form, channels, rate, byte_rate, align, bits) == (1, 1, 24_000, 48_000, 2, 16)
    assert struct.unpack_from("<4sI", data, 36) == (b"data", 2 * 1001)
    assert len(data) == 44 + 2 * 1001


def test_wav_reads_back_by_the_standard_library():
    sound = half_scale_sine(1001)
    with wave.open(io.BytesIO(sound.wav())) as file:
        assert file.getparams()[:4] == (1, 2, 24_000, 1001)
        assert file.readframes(1001) == sound.pcm16().astype("<i2").tobytes()


def test_wav_of_half_scale_reads_back_half_scale():
    samples, rate = soundfile.read(io.BytesIO(audio([0.5, -0.5, 0.25]).wav()))
    assert rate == 24_000
    assert samples.tolist() == [0.5, -0.5, 0.25]
    sine, _ = soundfile.read(io.BytesIO(half_scale_sine().wav()))
    assert np.abs(sine).max() == pytest.approx(0.5, abs=1e-3)
    assert np.sqrt(np.mean(sine**2)) == pytest.approx(0.5 / np.sqrt(2), abs=1e-3)


@pytest.mark.parametrize(("count", "seconds"), [(0, 0.0), (24_000, 1.0), (256, 256 / 24_000)])
def test_duration_is_in_seconds(count, seconds):
    sound = audio(np.zeros(count))
    assert sound.duration == seconds
    assert sound.sample_rate == 24_000


@pytest.mark.parametrize("samples", [[], [0.0] * 300, [np.nan] * 300], ids=["empty", "silent", "nan"])
def test_empty_silent_and_nan_sound_become_silence(samples):
    sound = audio(samples)
    assert sound.pcm16().tolist() == [0] * len(samples)
    assert soundfile.read(io.BytesIO(sound.wav()))[0].tolist() == [0.0] * len(samples)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("samples", [[], [0.0] * 300, [np.nan] * 300], ids=["empty", "silent", "nan"])
def test_a_saved_file_can_be_read_however_little_it_holds(samples, ending, tmp_path):
    file = audio(samples).save(tmp_path / f"a{ending}")
    # A FLAC file holds at least one sample: without one it cannot be read.
    assert soundfile.info(file).frames == max(len(samples), ending == ".flac")


@pytest.mark.parametrize("ending", [*ENDINGS, ".WAV", ".Flac"])
@pytest.mark.parametrize("as_text", [True, False])
def test_save_writes_the_format_the_ending_names(ending, as_text, tmp_path):
    file = tmp_path / f"ready{ending}"
    written = half_scale_sine().save(str(file) if as_text else file)
    assert written == file
    info = soundfile.info(file)
    assert info.format == ending[1:].upper()
    assert (info.samplerate, info.channels, info.frames) == (24_000, 1, 24_000)
    assert [item.name for item in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("ending", [".wav", ".flac"])
def test_lossless_files_hold_the_pcm16_samples(ending, tmp_path):
    sound = half_scale_sine()
    samples, _ = soundfile.read(sound.save(tmp_path / f"a{ending}"), dtype="int16")
    assert (samples == sound.pcm16()).all()


def test_an_ogg_file_sounds_like_the_samples(tmp_path):
    sound = half_scale_sine()
    samples, _ = soundfile.read(sound.save(tmp_path / "a.ogg"))
    assert np.corrcoef(samples, sound.samples)[0, 1] > 0.99
    assert np.sqrt(np.mean(samples**2)) == pytest.approx(0.3535, rel=0.05)


def test_save_works_in_a_folder_with_any_name(tmp_path):
    folder = tmp_path / "模型 目录" / "引擎 (1)"
    folder.mkdir(parents=True)
    assert soundfile.info(half_scale_sine().save(folder / "声音.wav")).frames == 24_000


@pytest.mark.parametrize("name", ["a.mp3", "a", "a.", "a.wav.txt", ".wav", "a.raw"])
def test_a_wrong_ending_is_refused_with_the_right_ones(name, tmp_path):
    with pytest.raises(UsageError) as caught:
        half_scale_sine().save(tmp_path / name)
    for part in (repr(name), *ENDINGS):
        assert part in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_an_error_and_nothing_is_left(tmp_path):
    file = tmp_path / "missing" / "a.wav"
    with pytest.raises(TrtTtsError, match=r"a\.wav"):
        half_scale_sine().save(file)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_an_error_and_is_left_alone(tmp_path):
    (tmp_path / "a.wav").mkdir()
    with pytest.raises(TrtTtsError, match=r"a\.wav"):
        half_scale_sine().save(tmp_path / "a.wav")
    assert [item.name for item in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (OSError("disk full"), TrtTtsError),
        (soundfile.LibsndfileError(2), TrtTtsError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
    ids=["os", "libsndfile", "interrupt"],
)
def test_a_failed_or_interrupted_save_leaves_the_old_file(failure, expected, tmp_path, monkeypatch):
    def write_half(target, *args, **kwargs):
        Path(os.fsdecode(target)).write_bytes(b"half a file")
        raise failure

    file = tmp_path / "a.wav"
    file.write_bytes(b"the old file")
    monkeypatch.setattr(soundfile, "SoundFile", write_half)
    with pytest.raises(expected) as caught:
        half_scale_sine().save(file)
    assert str(file) in str(caught.value) or caught.type is KeyboardInterrupt
    assert file.read_bytes() == b"the old file"
    assert [item.name for item in tmp_path.iterdir()] == ["a.wav"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such names")
@pytest.mark.parametrize("ending", ["wav", "flac", "ogg"])
def test_a_name_that_is_no_utf8_is_a_name(tmp_path, ending):
    file = half_scale_sine().save(tmp_path / f"\udcff.{ending}")
    samples, rate = read_recording(file)
    assert samples.shape == (24_000, 1) and rate == 24_000


def test_a_long_ogg_file_is_written_whole(tmp_path):
    """libsndfile 1.2 crashes on two million samples in one call."""
    file = audio(np.sin(np.arange(2_200_000) / 20).astype(np.float32)).save(tmp_path / "long.ogg")
    assert soundfile.info(file).frames == 2_200_000


def test_save_replaces_an_old_file(tmp_path):
    file = tmp_path / "a.wav"
    file.write_bytes(b"the old file")
    half_scale_sine().save(file)
    assert soundfile.info(file).frames == 24_000


@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000, 192_000])
def test_a_resampled_tone_keeps_its_pitch_its_level_and_its_length(rate):
    tone = half_scale_sine(24_000).resampled(rate)
    assert (tone.sample_rate, tone.samples.dtype, tone.samples.size) == (rate, np.float32, rate)
    assert (tone.duration, tone.seed, tone.text) == (1.0, 7, "hi")
    inner = slice(rate // 10, -rate // 10)
    wanted = 0.5 * np.sin(2 * np.pi * 440 * np.arange(rate) / rate)
    assert snr(wanted[inner], tone.samples[inner]) > 90
    assert np.abs(tone.samples).max() < 0.51


@pytest.mark.parametrize("rate", [8_000, 22_050, 48_000])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a4_a_resampled_sound_is_written_with_its_rate(rate, ending, tmp_path):
    sound = half_scale_sine().resampled(rate)
    info = soundfile.info(sound.save(tmp_path / f"a{ending}"))
    assert (info.samplerate, info.frames) == (rate, rate)
    with wave.open(io.BytesIO(sound.wav())) as header:
        assert (header.getframerate(), header.getnframes()) == (rate, rate)


def test_what_lies_above_half_the_new_rate_is_gone():
    high = audio(0.5 * np.sin(2 * np.pi * 6_000 * np.arange(24_000) / 24_000)).resampled(8_000)
    assert np.abs(high.samples[400:-400]).max() < 1e-4


def test_the_rate_it_has_is_left_alone():
    sound = half_scale_sine()
    assert sound.resampled(24_000) is sound


@pytest.mark.parametrize("rate", [7_999, 192_001, 0, -1, 44_100.5, "48000", True, None])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(UsageError, match="8000 to 192000"):
        half_scale_sine().resampled(rate)


@pytest.mark.parametrize("samples", [[], [0.0] * 300, [np.nan] * 300], ids=["empty", "silent", "nan"])
def test_a3_silence_and_what_is_no_number_resample_to_silence_and_are_not_trimmed(samples):
    """A3"""
    sound = audio(samples)
    assert sound.resampled(48_000).samples.tolist() == [0.0] * 2 * len(samples)
    assert sound.trimmed() is sound


def test_a6_trimming_leaves_the_silence_within(tmp_path):
    """A6: only the ends go, but for what is to be kept of them."""
    tone, gap = half_scale_sine(2_400).samples, np.full(12_000, 1e-6, np.float32)
    trimmed = audio(np.concatenate([gap, tone, gap, tone, gap])).trimmed(keep_seconds=0.05)
    wanted = np.concatenate([gap[:1_200], tone, gap, tone, gap[:1_200]])
    assert np.array_equal(trimmed.samples, wanted)
    assert trimmed.duration == wanted.size / 24_000


@given(
    st.lists(st.tuples(st.integers(1, 2_000), st.floats(-120, 0)), min_size=1, max_size=6),
    st.floats(-100, -1),
    st.floats(0, 0.2),
    st.sampled_from([8_000, 24_000, 44_100]),
)
def test_a6_trimming_cuts_at_the_ends_and_only_what_is_quiet(parts, threshold, keep, rate):
    """A6: parts of a length and a level in dB."""
    samples = np.concatenate([np.full(count, 10 ** (level / 20), np.float32) for count, level in parts])
    sound = replace(audio(samples), sample_rate=rate)
    trimmed = sound.trimmed(threshold, keep).samples
    loud = np.flatnonzero(samples >= samples.max() * np.float32(10 ** (threshold / 20)))
    cut = len(samples) - len(trimmed)
    assert any(
        np.array_equal(samples[start : start + len(trimmed)], trimmed)
        and start <= max(0, loud[0] - round(keep * rate))
        and start + len(trimmed) >= min(len(samples), loud[-1] + 1 + round(keep * rate))
        for start in range(cut + 1)
    )
    # Of what is quiet, no more than a frame of 10 ms is left beyond what is to be kept.
    slack = 2 * (rate // 100 + round(keep * rate)) + 2
    assert len(trimmed) <= loud[-1] + 1 - loud[0] + slack


@given(SAMPLES)
def test_trimming_any_samples_gives_a_part_of_them(samples):
    trimmed = audio(samples).trimmed().samples
    assert any(
        np.array_equal(samples[first : first + len(trimmed)], trimmed, equal_nan=True)
        for first in range(len(samples) - len(trimmed) + 1)
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("threshold_db", 1),
        ("threshold_db", -121),
        ("threshold_db", np.nan),
        ("keep_seconds", -0.1),
        ("keep_seconds", "1"),
    ],
)
def test_trimming_outside_what_makes_sense_is_refused(name, value):
    with pytest.raises(UsageError, match=f"{name} is"):
        half_scale_sine().trimmed(**{name: value})
