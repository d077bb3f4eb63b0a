"""Voices in the forms that people share them in: voice strings; and vectors as JSON, numpy and torch files."""

from __future__ import annotations

import json
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.errors import MissingDependencyError, TrtTtsError, UsageError, VoiceError
from trt_tts.files import new_file
from trt_tts.voice import Voice
from trt_tts.voice_file import AnyVoice
from trt_tts.voice_sample import VoiceSample

READ = (".txt", ".json", ".npy", ".pt", ".pth")
WRITTEN = (".txt", ".json", ".npy")


def read_voice(source: str, transcript: str | None = None) -> AnyVoice:
    """A voice from a voice string or from a file.

    Args:
        source: the string, or the file's path.
        transcript: the words of an audio-sample string; with them `source` is, or holds, one.

    Raises:
        UsageError: the file's ending is not one of `READ`, or there is no such file.
        VoiceError: it holds no voice of this kind.
        MissingDependencyError: reading .pt files needs torch.
    """
    if not source.isascii() and not Path(source).suffix:
        return _from_string(source, transcript)
    file = Path(source)
    if file.suffix.lower() not in READ:
        raise UsageError(f"{source!r} is no voice string, and no file that ends in {', '.join(READ)}")
    if not file.is_file():
        raise UsageError(f"there is no file {file}")
    try:
        found = _content(file)
    except pickle.UnpicklingError as error:
        raise VoiceError(f"{file} holds something else than a tensor, and is not unpacked") from error
    except (OSError, ValueError, EOFError, RuntimeError, struct.error) as error:
        raise VoiceError(f"{file} is not readable: {error or type(error).__name__}") from error
    if isinstance(found, str):
        return _from_string(found, transcript)
    if transcript is not None:
        raise UsageError(f"{file} holds a speaker vector, which has no words; leave out --text")
    vector = np.asarray(found)
    return Voice.from_vector(vector.reshape(-1) if vector.ndim == 2 and len(vector) == 1 else vector)


def _from_string(text: str, transcript: str | None) -> AnyVoice:
    return Voice.from_string(text) if transcript is None else VoiceSample.from_string(text, transcript)


def _content(file: Path) -> Any:
    kind = file.suffix.lower()
    if kind == ".txt":
        return file.read_text("utf-8-sig").strip()
    if kind == ".json":
        return json.loads(file.read_text("utf-8-sig"))
    if kind == ".npy":
        return np.load(file, allow_pickle=False)
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(
            "reading a .pt file needs torch. Install its CPU build: python tools/install_torch_cpu.py"
        ) from error
    found = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"it holds a {type(found).__name__}, not a tensor")
    return found.detach().float().numpy()


def write_voice(target: Path, voice: AnyVoice) -> None:
    """Write a file whose ending is one of `WRITTEN`: the voice string, a list of numbers, or a float16 array.

    Raises:
        UsageError: another ending, or the voice is a sample and the ending not that of a string.
        TrtTtsError: it cannot be written.
    """
    kind = target.suffix.lower()
    if kind not in WRITTEN:
        raise UsageError(f"cannot write {target.name!r}: the file's ending must be one of {', '.join(WRITTEN)}")
    try:
        with new_file(target) as work:
            if kind == ".txt":
                work.write_text(voice.to_string() + "\n", "utf-8", newline="\n")
            elif isinstance(voice, VoiceSample):
                raise UsageError(f"cannot write a voice sample to {target.name!r}: the file's ending must be .txt")
            elif kind == ".json":
                work.write_text(json.dumps(voice.vector.astype(float).tolist()) + "\n", "utf-8", newline="\n")
            else:
                with work.open("wb") as out:
                    np.save(out, voice.vector)
    except OSError as error:
        raise TrtTtsError(f"cannot write {target}: {error.strerror or error}") from error
