"""A1 to A10: what goes wrong with sound."""

import io
import struct

import numpy as np
import pytest
import soundfile

from tests.reference_case import Reference, snr
from trt_tts.audio import Audio
from trt_tts.sinks import pipe_sink
from trt_tts.windows import Window

TEXT = "the engine is ready. good morning. the train is late"


def audio(samples):
    return Audio(np.asarray(samples, np.float32), seed=0, steps=1, truncated=False, text="a")


def test_a1_chunks_join_to_the_offline_sound_bit_for_bit(engine):
    wanted = engine.synthesize(TEXT, seed=7).samples
    heard = np.zeros(0, np.float32)
    count = 0
    for chunk in engine.stream(TEXT, seed=7):
        heard = np.concatenate([heard, chunk.samples])
        assert np.array_equal(heard, wanted[: len(heard)]), "what was given out never changes"
        count += 1
    assert len(heard) == len(wanted) and count > 6


@pytest.mark.parametrize("samples", [[], [0.0] * 4800, [np.nan] * 4800, [np.inf, -np.inf], [0.0]])
@pytest.mark.filterwarnings("error")
def test_a3_silent_empty_and_nan_sound_is_written_like_any_other(samples, tmp_path):
    sound = audio(samples)
    for ending in ("wav", "flac", "ogg"):
        file = sound.save(tmp_path / f"a.{ending}")
        found = soundfile.read(file)[0]
        assert np.isfinite(found).all() and (found.any() == np.isinf(samples).any())
    assert sound.trimmed().samples.size <= sound.samples.size
    assert np.isfinite(sound.resampled(16_000).samples).all()
    assert len(sound.wav()) == 44 + 2 * len(samples)


def test_a4_a_half_scale_sine_reads_back_at_half_scale(tmp_path):
    sine = 0.5 * np.sin(2 * np.pi * 440 * np.arange(24_000) / 24_000)
    file = audio(sine).save(tmp_path / "a.wav")
    with soundfile.SoundFile(file) as sound:
        assert (sound.samplerate, sound.channels, sound.subtype) == (24_000, 1, "PCM_16")
        found = sound.read()
    assert np.abs(found).max() == pytest.approx(0.5, abs=1e-4)
    assert np.abs(found - sine).max() < 1 / 32_768
    data = file.read_bytes()
    assert struct.unpack("<I", data[4:8])[0] == len(data) - 8
    assert struct.unpack("<I", data[40:44])[0] == 2 * 24_000 == len(data) - 44


def test_a5_a_pipe_gets_one_header_or_none(engine):
    for header in (True, False):
        pipe = io.BytesIO()
        with pipe_sink(pipe, 24_000, header) as sink:
            for chunk in engine.stream(TEXT, seed=7):
                sink(chunk.samples)
        data = pipe.getvalue()
        assert data.count(b"RIFF") == data.count(b"data") == int(header)
        assert data[44 if header else 0 :] == engine.synthesize(TEXT, seed=7).pcm16().astype("<i2").tobytes()


def test_a6_silence_inside_is_kept_and_only_the_ends_are_trimmed_on_request(engine):
    burst = 0.4 * np.sin(np.arange(2400) / 5)
    samples = np.concatenate([np.zeros(9600), burst, np.zeros(12_000), burst, np.zeros(9600)])
    sound = audio(samples)
    assert np.array_equal(sound.pcm16(), np.rint(np.float32(samples) * 32_768).astype(np.int16))
    trimmed = sound.trimmed().samples
    assert 16_800 <= trimmed.size < samples.size - 9600
    first = np.flatnonzero(samples)[0] - np.flatnonzero(trimmed)[0]
    assert np.array_equal(trimmed, np.float32(samples)[first : first + trimmed.size])
    assert (engine.synthesize("good morning. good evening", seed=1).samples == 0).sum() > 0.25 * 24_000, "pauses"


def test_a7_the_first_sound_comes_when_the_receptive_field_is_filled_or_sooner(engine):
    margin = engine.first_sound_steps() - 2
    assert margin == 27, "of the demo voice"
    assert engine.first_sound_steps(12) <= 24
    taken = []
    for lookahead in (None, 12):
        with_stream = engine.stream("the engine is ready", seed=7, lookahead=lookahead)
        next(with_stream)
        (row,) = engine._speaker._loop._active
        taken.append(len(row.codes))
        with_stream.close()
    assert taken == [29, 14]
    assert 60 < engine.lookahead_snr(12) < engine.lookahead_snr(20)
    assert engine.lookahead_snr(4) < engine.lookahead_snr(12)
    assert engine.lookahead_snr(margin) == np.inf


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("name", ["tiny", "demo_voice"])
def test_a8_the_shortest_clips_have_exact_length_and_the_reference_sound(tiny_engine, engine, name, steps):
    loaded = {"tiny": tiny_engine, "demo_voice": engine}[name]
    vectors = Reference.of(name, loaded.info.path).vectors
    hidden, wanted = vectors["greedy_spk_pen1.05_0_hidden"][:steps], vectors[f"codec_wav_{steps}steps"].ravel()
    length = 512 * steps - 256
    found = loaded._backend.decode_hidden(np.ascontiguousarray(hidden), Window(0, steps, 0, length))
    assert found.shape == wanted.shape == (length,) and np.isfinite(found).all()
    assert snr(wanted, found) > 90


def test_a10_samples_beyond_full_scale_saturate():
    assert audio([1.0, 1.5, -1.0, -1.5, 0.99999, np.inf, -np.inf]).pcm16().tolist() == [
        32_767, 32_767, -32_768, -32_768, 32_767, 32_767, -32_768,
    ]  # fmt: skip
