"""base16384: bytes as Chinese characters, 14 bits each, as ChatTTS writes its voice strings.

Seven bytes are 56 bits, four characters from U+4E00 on. A last group of n < 7 bytes is padded with zero bits to whole
characters and followed by the character U+3D00 + n. Format: github.com/fumiama/base16384.
"""

from __future__ import annotations

from trt_tts.errors import VoiceError

_FIRST = 0x4E00
_TAIL = 0x3D00
_BITS = 14


def encode(data: bytes) -> str:
    """The base16384 text of `data`."""
    text = "".join(_characters(data[i : i + 7]) for i in range(0, len(data), 7))
    rest = len(data) % 7
    return text + (chr(_TAIL + rest) if rest else "")


def decode(text: str) -> bytes:
    """The bytes behind `text`.

    Raises:
        VoiceError: a character or the length is not base16384.
    """
    given, rest = text, 0
    if text and _TAIL < ord(text[-1]) < _TAIL + 7:
        rest, text = ord(text[-1]) - _TAIL, text[:-1]
    values = [ord(c) - _FIRST for c in text]
    wrong = next((i for i, v in enumerate(values) if not 0 <= v < 1 << _BITS), None)
    if wrong is not None:
        raise VoiceError(f"character {wrong + 1} of the voice string, {text[wrong]!r}, is not base16384")
    whole, odd = divmod(len(values) - _width(rest), 4)
    if odd or whole < 0:
        raise VoiceError(f"the voice string is truncated: {len(text)} characters do not end on a byte boundary")
    out = bytearray()
    for i in range(0, len(values), 4):
        group = values[i : i + 4]
        bits = 0
        for value in group:
            bits = bits << _BITS | value
        out += (bits << _BITS * (4 - len(group))).to_bytes(7, "big")
    data = bytes(out[: 7 * whole + rest])
    if encode(data) != given:
        raise VoiceError("the voice string is damaged: its last characters do not fit together")
    return data


def _width(size: int) -> int:
    """Characters that `size` < 8 bytes take."""
    return -(-size * 8 // _BITS)


def _characters(group: bytes) -> str:
    bits = int.from_bytes(group.ljust(7, b"\0"), "big")
    return "".join(chr(_FIRST + (bits >> _BITS * (3 - i) & (1 << _BITS) - 1)) for i in range(_width(len(group))))
