"""Packs bytes into ChatTTS's voice strings: base16384 of what raw LZMA2 made of them."""

from __future__ import annotations

import lzma

from trt_tts import base16384
from trt_tts.errors import VoiceError

_MOST_BYTES = 1 << 17
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 2 * _MOST_BYTES}]
"""As ChatTTS's, but for the dictionary: 64 MB, which it sets up at every call, change no byte of what is so short."""


def pack(data: bytes, head: bytes = b"") -> str:
    """The string of `head`, as it is, and `data`, compressed."""
    return base16384.encode(head + lzma.compress(data, format=lzma.FORMAT_RAW, filters=_FILTERS))


def unpack(text: str, head: int = 0) -> tuple[bytes, bytes]:
    """The `head` bytes that are not compressed, and the data after them.

    Raises:
        VoiceError: says which layer of the encoding is broken.
    """
    if not isinstance(text, str) or not text.strip():
        raise VoiceError(f"a voice string is base16384 text (Chinese characters), found {text!r}")
    packed = base16384.decode(text.strip())
    try:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_FILTERS)
        data = decoder.decompress(packed[head:], max_length=_MOST_BYTES)
        if not decoder.eof:
            raise lzma.LZMAError("its end is missing")
    except lzma.LZMAError as error:
        raise VoiceError(f"the voice string is truncated or no ChatTTS voice string: {error}") from error
    return packed[:head], data
