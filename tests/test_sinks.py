"""Where sound goes as it comes."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference_case import snr
from trt_tts.audio import Audio
from trt_tts.errors import MissingDependencyError, TrtTtsError, UsageError
from trt_tts.sinks import device_sink, file_sink, pipe_sink, resampling, wav_header

RATES = st.sampled_from([8_000, 16_000, 22_050, 24_000, 44_100, 48_000])


def noise(count, seed=0):
    return (0.1 * np.random.default_rng(seed).standard_normal(count)).astype(np.float32)


def whole(samples):
    return Audio(samples, seed=0, steps=1, truncated=False, text="hi")


def cut(samples, places):
    return np.split(samples, sorted(place % (len(samples) + 1) for place in places))


def test_a5_a_pipe_gets_one_header_and_each_chunk_at_once():
    """A5"""
    pipe, samples = io.BytesIO(), noise(5_000)
    with pipe_sink(pipe, 16_000, header=True) as sink:
        for count, chunk in enumerate(cut(samples, [1_000, 3_500]), 1):
            sink(chunk)
            assert len(pipe.getvalue()) == 44 + 2 * (1_000, 3_500, 5_000)[count - 1]
    data = pipe.getvalue()
    assert data.count(b"RIFF") == data.count(b"WAVE") == 1
    assert data[44:] == whole(samples).pcm16().astype("<i2").tobytes()
    found, rate = soundfile.read(io.BytesIO(data), dtype="int16")
    assert rate == 16_000
    assert np.array_equal(found, whole(samples).pcm16())


def test_the_header_is_that_of_a_wav_file_but_for_its_sizes():
    """The standard library's writer is the truth; sizes are all ones, as other programs write for a pipe."""
    plain = bytearray(whole(noise(10)).wav()[:44])
    plain[4:8] = plain[40:44] = b"\xff" * 4
    assert wav_header(24_000) == bytes(plain)


def test_raw_samples_have_no_header():
    pipe = io.BytesIO()
    with pipe_sink(pipe, 24_000, header=False) as sink:
        sink(np.array([0.5, -2.0, np.nan], np.float32))
    assert pipe.getvalue() == np.array([16384, -32768, 0], "<i2").tobytes()


@pytest.mark.parametrize(("failure", "expected"), [(BrokenPipeError, BrokenPipeError), (OSError, TrtTtsError)])
def test_a_pipe_that_breaks_says_so(failure, expected):
    class Breaking(io.BytesIO):
        def write(self, data):
            raise failure(28, "no room")

    with pytest.raises(expected, match="no room"), pipe_sink(Breaking(), 24_000, header=False) as sink:
        sink(noise(10))


@given(st.integers(0, 3_000), st.lists(st.integers(0, 3_000), max_size=6), RATES)
@settings(max_examples=50)
def test_a1_chunks_resample_to_what_the_whole_does(count, places, rate):
    """A1: no click at a seam."""
    samples, found = noise(count, count), [np.zeros(0, np.float32)]
    with resampling(found.append, rate) as sink:
        for chunk in cut(samples, places):
            sink(chunk)
    wanted = whole(samples).resampled(rate).samples
    joined = np.concatenate(found)
    assert len(joined) == len(wanted)
    assert np.abs(joined - wanted).max(initial=0.0) < 1e-6


def test_a_wrong_rate_is_refused():
    with pytest.raises(UsageError, match="rate is 1"), resampling(print, 1):
        pass


@pytest.mark.parametrize("ending", [".wav", ".flac", ".ogg"])
def test_a_file_grows_beside_its_place_and_then_appears(ending, tmp_path):
    file, samples = tmp_path / f"声音{ending}", noise(60_000)
    with file_sink(file, 22_050) as sink:
        for chunk in cut(samples, [7, 20_000, 50_000]):
            sink(chunk)
            assert not file.exists()
    info = soundfile.info(file)
    assert (info.samplerate, info.frames) == (22_050, 60_000)
    found, _ = soundfile.read(file)
    assert snr(samples, found) > (5 if ending == ".ogg" else 60)
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, TrtTtsError, GeneratorExit])
@pytest.mark.parametrize("ending", [".wav", ".flac", ".ogg"])
def test_an_error_or_interruption_leaves_the_old_file_and_nothing_else(failure, ending, tmp_path):
    file = tmp_path / f"a{ending}"
    file.write_bytes(b"the old file")
    with pytest.raises(failure), file_sink(file, 24_000) as sink:
        sink(noise(30_000))
        raise failure
    assert file.read_bytes() == b"the old file"
    assert list(tmp_path.iterdir()) == [file]


class PortAudioError(Exception):
    pass


class Player:
    """Stands for a sound device."""

    def __init__(self, failing=()):
        self.failing, self.calls, self.heard = failing, [], []

    def __call__(self, samplerate, channels, dtype):
        self.rate, self.kind = samplerate, (channels, dtype)
        return self._did("open") or self

    def _did(self, what):
        self.calls.append(what)
        if what in self.failing:
            raise PortAudioError(f"{what} failed")

    def start(self):
        self._did("start")

    def write(self, samples):
        self.heard.append(samples.copy())
        self._did("write")

    def stop(self):
        self._did("stop")

    def abort(self):
        self._did("abort")

    def close(self):
        self._did("close")


def playing(monkeypatch, *failing):
    player = Player(failing)
    module = SimpleNamespace(OutputStream=player, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return player


def test_a_sound_device_plays_all_chunks_to_the_end(monkeypatch):
    player, samples = playing(monkeypatch), noise(3_000)
    with device_sink(48_000) as sink:
        for chunk in cut(samples, [100, 2_000]):
            sink(chunk)
    assert (player.rate, player.kind) == (48_000, (1, "int16"))
    assert np.array_equal(np.concatenate(player.heard), whole(samples).pcm16()[:, None])
    assert player.calls == ["open", "start", "write", "write", "write", "stop", "close"]


@pytest.mark.parametrize(
    ("step", "calls"),
    [
        ("open", ["open"]),
        ("write", ["open", "start", "write", "close"]),
        ("stop", ["open", "start", "write", "stop", "close"]),
    ],
)
def test_a_device_that_fails_is_one_clear_error(step, calls, monkeypatch):
    player = playing(monkeypatch, step)
    with pytest.raises(TrtTtsError, match=f"cannot play at 48000 Hz: {step} failed.*-o"), device_sink(48_000) as sink:
        sink(noise(10))
    assert player.calls == calls


def test_a_device_that_cannot_start_is_closed(monkeypatch):
    player = playing(monkeypatch, "start")
    with pytest.raises(TrtTtsError, match="start failed"), device_sink(48_000):
        pass
    assert player.calls == ["open", "start", "close"]


def test_an_interruption_stops_the_sound_at_once(monkeypatch):
    player = playing(monkeypatch)
    with pytest.raises(KeyboardInterrupt), device_sink(24_000) as sink:
        sink(noise(10))
        raise KeyboardInterrupt
    assert player.calls == ["open", "start", "write", "abort", "close"]


def test_without_sounddevice_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(MissingDependencyError, match=r'pip install "trt-tts\[play\]"'), device_sink(24_000):
        pass


def test_without_portaudio_the_error_says_what_to_install(monkeypatch, tmp_path):
    (tmp_path / "sounddevice.py").write_text("raise OSError('PortAudio library not found')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    with (
        pytest.raises(MissingDependencyError, match=r"PortAudio library not found.*libportaudio2"),
        device_sink(24_000),
    ):
        pass
