"""A voice taken from a recording: the recording as the model's codes, and what is said in it."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from trt_tts.errors import VoiceError
from trt_tts.model_config import STEPS_PER_SECOND, GptConfig
from trt_tts.voice_string import pack, unpack

_HEAD = struct.Struct("<HH")
"""Rows and columns of the codes."""
_LARGEST_CODE = (1 << 16) - 1
MOST_CODES = (1 << 16) - 1
"""Of a sample, all codebooks together: what a string can say of its shape, and what is unpacked of one."""


@dataclass(frozen=True)
class VoiceSample:
    """A speaker by example. Compares and hashes by value."""

    data: bytes = field(repr=False)
    """The codes as little-endian uint16, row by row."""
    books: int
    """Rows: codebooks of the model."""
    transcript: str
    """What is said in the recording."""
    name: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole = isinstance(self.data, bytes) and isinstance(self.books, int) and self.books > 0
        if not whole or not self.data or len(self.data) % (2 * self.books):
            raise VoiceError("a voice sample is made with VoiceSample.from_string, from_codes or Engine.clone_voice")
        if len(self.data) > 2 * MOST_CODES:
            raise VoiceError(f"a voice sample holds at most {MOST_CODES} codes, found {len(self.data) // 2}")
        if not isinstance(self.transcript, str) or not any(map(str.isalnum, self.transcript)):
            raise VoiceError(
                f"a voice sample needs its transcript, the words of the recording; found {self.transcript!r}"
            )

    @classmethod
    def from_codes(cls, codes: Any, transcript: str, name: str | None = None) -> Self:
        """A voice from codes, whole numbers [books, T].

        Raises:
            VoiceError: of another shape, empty, too many, or no codes; or the transcript is missing.
        """
        try:
            value = np.asarray(codes)
        except ValueError:
            value = np.zeros(0)
        if value.ndim != 2 or value.dtype.kind not in "iu" or not value.size:
            raise VoiceError(f"a voice sample's codes are whole numbers [codebooks, T], found {value.shape}")
        if value.min() < 0 or value.max() > _LARGEST_CODE:
            raise VoiceError(f"a voice sample's codes are from 0 on, found {value.min()} to {value.max()}")
        return cls(value.astype("<u2").tobytes(), len(value), transcript, name)

    @classmethod
    def from_string(cls, text: str, transcript: str, name: str | None = None) -> Self:
        """Read a ChatTTS audio-sample string: base16384 of the codes' shape and their LZMA2-compressed uint16 values.

        Raises:
            VoiceError: says what is broken, or that it is a string of another kind.
        """
        try:
            head, data = unpack(text, _HEAD.size)
        except VoiceError as error:
            if is_speaker_string(text):
                raise VoiceError(
                    "this is a speaker string, not an audio-sample string; it needs no transcript: Voice.from_string"
                ) from error
            raise
        books, steps = _HEAD.unpack(head)
        if not books or not steps or len(data) != 2 * books * steps:
            raise VoiceError(
                f"the audio-sample string is damaged: it claims {books} x {steps} codes and holds {len(data) / 2:g}"
            )
        return cls(data, books, transcript, name)

    @property
    def codes(self) -> npt.NDArray[np.int32]:
        """int32 [books, T]."""
        return np.frombuffer(self.data, "<u2").astype(np.int32).reshape(self.books, -1)

    @property
    def steps(self) -> int:
        """T."""
        return len(self.data) // (2 * self.books)

    @property
    def seconds(self) -> float:
        """Of the recording."""
        return self.steps / STEPS_PER_SECOND

    def to_string(self) -> str:
        """The ChatTTS audio-sample string that `from_string` reads; the transcript is not part of it."""
        return pack(self.data, _HEAD.pack(self.books, self.steps))

    def checked(self, sizes: GptConfig) -> Self:
        """The sample itself when it suits a model.

        Raises:
            VoiceError: it was made by a model with other codebooks.
        """
        largest = int(self.codes.max())
        if self.books != sizes.num_vq or largest >= sizes.end_code:
            raise VoiceError(
                f"this voice sample has {self.books} rows of codes up to {largest}; "
                f"the model's have {sizes.num_vq} rows and codes up to {sizes.end_code - 1}"
            )
        return self


def is_sample_string(text: str) -> bool:
    """Whether a text is an audio-sample string, its transcript aside."""
    try:
        head, data = unpack(text, _HEAD.size)
    except VoiceError:
        return False
    books, steps = _HEAD.unpack(head)
    return bool(books and steps and len(data) == 2 * books * steps)


def is_speaker_string(text: str) -> bool:
    """Whether a text is a speaker string."""
    try:
        _, data = unpack(text)
    except VoiceError:
        return False
    return len(data) % 2 == 0
