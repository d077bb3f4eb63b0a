import numpy as np
import pytest

from trt_tts.builders.speech_distance import (
    BANDS,
    HOP,
    RATE,
    log_mel,
    mel_cepstral_distortion,
    mel_l1,
)

RANDOM = np.random.default_rng(3)
NOISE = RANDOM.normal(0, 0.1, RATE).astype(np.float32)


def test_equal_recordings_are_no_distance_apart():
    mel = log_mel(NOISE)
    assert mel.shape == (1 + RATE // HOP, BANDS)
    assert mel_l1(mel, mel) == mel_cepstral_distortion(mel, mel) == 0


@pytest.mark.parametrize("gain", [0.5, 2.0])
def test_loudness_moves_the_spectrum_and_not_the_cepstrum(gain):
    first, second = log_mel(NOISE), log_mel(gain * NOISE)
    assert mel_l1(first, second) == pytest.approx(abs(np.log(gain)), rel=1e-3)
    assert mel_cepstral_distortion(first, second) == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("coefficient", [1, 4, 13])
def test_a_ripple_in_the_spectrum_is_its_effective_value_in_db(coefficient):
    """A ripple of amplitude A nepers has 20 / ln 10 * A / sqrt(2) dB."""
    first = log_mel(NOISE)
    ripple = 0.3 * np.cos(np.pi * coefficient * (np.arange(BANDS) + 0.5) / BANDS)
    expected = 20 / np.log(10) * 0.3 / np.sqrt(2)
    assert mel_cepstral_distortion(first, first + ripple) == pytest.approx(expected, rel=1e-6)


def test_ripples_finer_than_the_coefficients_are_not_heard():
    first = log_mel(NOISE)
    ripple = np.cos(np.pi * 20 * (np.arange(BANDS) + 0.5) / BANDS)
    assert mel_cepstral_distortion(first, first + ripple) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("frequency", [440.0, 3000.0, 9000.0])
def test_a_tone_stands_in_the_band_of_its_mel_frequency(frequency):
    tone = np.sin(2 * np.pi * frequency * np.arange(RATE) / RATE)
    top = 2595 * np.log10(1 + RATE / 2 / 700)
    expected = 2595 * np.log10(1 + frequency / 700) / top * (BANDS + 1) - 1
    assert abs(int(log_mel(tone).mean(0).argmax()) - expected) <= 1


def test_silence_is_finite_and_further_from_noise_than_noise_from_noise():
    silent, noise, other = log_mel(np.zeros(RATE)), log_mel(NOISE), log_mel(RANDOM.normal(0, 0.1, RATE))
    assert np.isfinite(silent).all()
    assert mel_l1(silent, noise) > mel_l1(other, noise) > 0
    assert mel_cepstral_distortion(other, noise) > 0
