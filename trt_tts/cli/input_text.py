"""Texts from the command line, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from trt_tts.cli.console import note
from trt_tts.errors import TextError, UsageError

_BOM_CODECS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


def read_text(text: str | None, file: Path | None, missing: str, option: str) -> str:
    """The text itself, standard input where it is "-", or a file's content.

    Args:
        text: as it was given.
        file: given in its place.
        missing: what to say where there is neither, or both.
        option: the option that names the file.

    Raises:
        UsageError: neither or both were given, or the file cannot be read.
        TextError: its encoding is unknown.
    """
    if (text is None) == (file is None):
        raise UsageError(missing)
    if file is not None:
        try:
            return decode_text(file.read_bytes(), str(file))
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if text == "-":
        if sys.stdin is None:
            raise UsageError(f"standard input is closed; give the text as an argument, or {option} F")
        return decode_text(sys.stdin.buffer.read(), "standard input")
    return text or ""


def decode_text(data: bytes, source: str) -> str:
    """Text from UTF-8 (with or without a byte-order mark), UTF-16 with one, or GB18030, which covers GBK.

    Raises:
        TextError: none of them fits.
    """
    codec = next((codec for mark, codec in _BOM_CODECS.items() if data.startswith(mark)), "utf-8")
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        problem = error
    try:
        text = data.decode("gb18030")
    except UnicodeDecodeError:
        raise TextError(f"{source} is not {codec} text ({problem}). Save it as UTF-8") from problem
    note(f"{source} is not {codec}; read as GB18030 (GBK)")
    return text
