"""Voices from recordings, on the GPU."""

import numpy as np
import pytest

from tests.reference_case import Reference
from trt_tts import Engine

pytestmark = pytest.mark.gpu


def test_a_cloned_voice_is_the_cpus_and_speaks(tiny_set, tiny_trt_set):
    published = Reference.of("tiny", tiny_set)
    wav = published.vectors["encoder_wav"]
    with Engine.load(tiny_set) as cpu, Engine.load(tiny_trt_set) as gpu:
        for length in (len(wav), 24_000, len(wav)):
            one, other = (engine.clone_voice(wav[:length], 24_000, "reference text") for engine in (cpu, gpu))
            assert np.array_equal(one.codes, other.codes)
        assert np.array_equal(other.codes, published.vectors["encoder_codes"])
        assert any(part.name == "voice_encoder" and not part.resident for part in gpu.info.memory)
        sounds = [engine.synthesize("hello there", voice=other, seed=2, max_steps=12).samples for engine in (cpu, gpu)]
        assert np.allclose(*sounds, atol=1e-3)


def test_a_long_recording_fits(tiny_trt_set):
    noise = np.random.default_rng(0).standard_normal(480_000).astype(np.float32) * 0.1
    with Engine.load(tiny_trt_set) as gpu:
        assert gpu.clone_voice(noise, 24_000, "noise").steps == (480_000 // 256 + 1) // 2
