"""Speaker vectors: named, random, and as ChatTTS voice strings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts import base16384
from trt_tts.errors import VoiceError
from trt_tts.random_numbers import normal_values
from trt_tts.voice_sample import is_sample_string, is_speaker_string
from trt_tts.voice_string import pack, unpack

F16: TypeAlias = npt.NDArray[np.float16]
F32: TypeAlias = npt.NDArray[np.float32]
LONGEST_NAME = 64
"""Characters of a voice's name."""


@dataclass(frozen=True)
class Voice:
    """One speaker: a float16 vector [E], stored as its bytes so that voices compare and hash by value."""

    data: bytes
    name: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes) or not self.data or len(self.data) % 2:
            raise VoiceError("a voice is made with Voice.from_vector or Voice.from_string")

    @classmethod
    def from_vector(cls, vector: Any, name: str | None = None) -> Self:
        """A voice from E numbers.

        Raises:
            VoiceError: not one-dimensional, not finite in float16, all zero, or too long for a float16 norm.
        """
        try:
            value = np.asarray(vector)
            if value.dtype.kind == "c":
                raise TypeError("complex")
            value = value.astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise VoiceError(f"a voice vector is a list of numbers, found {type(vector).__name__}") from None
        if value.ndim != 1 or value.size == 0:
            raise VoiceError(f"a voice vector is one-dimensional and not empty, found shape {value.shape}")
        with np.errstate(over="ignore"):
            half = value.astype(np.float16)
        if not np.isfinite(half).all():
            raise VoiceError("the voice vector holds NaN, infinite values, or values beyond float16's 65504")
        if not half.any():
            raise VoiceError("the voice vector is all zero; it names no speaker")
        voice = cls(half.tobytes(), name)
        if not np.isfinite(voice._norm()):
            raise VoiceError("the voice vector is too long: its norm is beyond float16's 65504")
        return voice

    @classmethod
    def from_string(cls, text: str, name: str | None = None) -> Self:
        """Read a ChatTTS speaker string (base16384 of LZMA2-compressed float16 values).

        Raises:
            VoiceError: says which layer of the encoding is broken.
        """
        try:
            _, raw = unpack(text)
        except VoiceError as error:
            if is_sample_string(text):
                raise VoiceError(
                    "this is an audio-sample string, not a speaker string; it needs the words of the recording: "
                    "VoiceSample.from_string(text, transcript), or trt-tts voices convert --text"
                ) from error
            raise
        if len(raw) % 2:
            raise VoiceError(f"the voice string holds {len(raw)} bytes, not whole float16 values")
        return cls.from_vector(np.frombuffer(raw, dtype="<f2"), name)

    @classmethod
    def random(cls, statistics: SpeakerStatistics, seed: int) -> Self:
        """mean + std * N(0, 1), a fixed function of `seed` and the checkpoint's statistics on every platform.

        Raises:
            VoiceError: `seed` is not within 0 .. 2^63 - 1.
        """
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**63:
            raise VoiceError(f"the voice's seed is {seed}; allowed: whole numbers from 0 to 2^63 - 1")
        values = normal_values(seed, statistics.mean.size) * statistics.std + statistics.mean
        return cls.from_vector(values, name=f"random({seed})")

    @property
    def vector(self) -> F16:
        """The float16 vector [E]."""
        return np.frombuffer(self.data, dtype=np.float16)

    def to_string(self) -> str:
        """The ChatTTS speaker string that `from_string` reads."""
        return pack(self.vector.astype("<f2").tobytes())

    def checked(self, width: int) -> Self:
        """The voice itself when it has `width` values.

        Raises:
            VoiceError: it has not.
        """
        if self.vector.size != width:
            raise VoiceError(f"this voice has {self.vector.size} values; the model's speaker vectors have {width}")
        return self

    def normalised(self) -> F32:
        """The unit vector [E] that replaces the embedding at `[spk_emb]`; divided in float16, as the model was."""
        return (self.vector / self._norm()).astype(np.float32)

    def _norm(self) -> np.float16:
        with np.errstate(over="ignore"):
            return np.float16(np.sqrt(np.square(self.vector.astype(np.float32)).sum()))


def may_be_string(text: str) -> bool:
    """Whether a text that is no voice's name is rather a voice string, if maybe a damaged one."""
    return not text.isascii() and (len(text) > LONGEST_NAME or is_speaker_string(text) or is_sample_string(text))


@dataclass(frozen=True, eq=False)
class SpeakerStatistics:
    """Standard deviation and mean, each float32 [E], of the checkpoint's speaker vectors."""

    std: F32
    mean: F32

    @classmethod
    def from_string(cls, text: str) -> Self:
        """Read ChatTTS's `spk_stat` string: base16384 of float16 std, then mean.

        Raises:
            VoiceError: not base16384, or not two equal halves.
        """
        if not isinstance(text, str):
            raise VoiceError(f"speaker statistics are base16384 text, found {text!r}")
        raw = base16384.decode(text)
        if not raw or len(raw) % 4:
            raise VoiceError(f"speaker statistics hold std and mean as float16; found {len(raw)} bytes")
        std, mean = np.split(np.frombuffer(raw, dtype="<f2").astype(np.float32), 2)
        return cls(std, mean)

    def to_string(self) -> str:
        """The string that `from_string` reads."""
        return base16384.encode(np.concatenate([self.std, self.mean]).astype("<f2").tobytes())

    def checked(self, width: int) -> Self:
        """The statistics themselves when they are finite and `width` wide.

        Raises:
            VoiceError: they are not.
        """
        if self.std.shape != (width,) or self.mean.shape != (width,):
            raise VoiceError(f"speaker statistics have {self.std.size} values; the model's have {width}")
        if not (np.isfinite(self.std).all() and np.isfinite(self.mean).all()):
            raise VoiceError("speaker statistics hold NaN or infinite values")
        return self
