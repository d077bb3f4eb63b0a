"""Named voices of the user, in a TOML or JSON file.

A table for each: `voice` is a speaker string; or `sample` an audio-sample string and `transcript` its words.
"""

from __future__ import annotations

import json
import tomllib
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

from trt_tts.errors import TrtTtsError, UsageError, VoiceError
from trt_tts.files import new_file
from trt_tts.voice import LONGEST_NAME, Voice
from trt_tts.voice_sample import VoiceSample

AnyVoice: TypeAlias = Voice | VoiceSample
_KEYS = ({"voice"}, {"sample", "transcript"})


def read_voices(path: str | PathLike[str]) -> dict[str, AnyVoice]:
    """The voices of a file, by name.

    Raises:
        UsageError: the file's ending is not .toml or .json.
        VoiceError: it is missing or damaged; names the file, and the voice.
    """
    file = Path(path)
    return {name: _voice(file, name, entry) for name, entry in _tables(file).items()}


def save_voice(path: str | PathLike[str], name: str, voice: AnyVoice, replace: bool = False) -> Path:
    """Add a voice to a file, or begin one; comments in a TOML file stay. Returns the file's path.

    Raises:
        UsageError: the file's ending, or the name, or that there is such a voice already and `replace` is false.
        VoiceError: the file is damaged.
        TrtTtsError: it cannot be written.
    """
    file = Path(path).resolve()  # a link stays one
    require_name(name)
    if not isinstance(voice, Voice | VoiceSample):
        raise UsageError(f"the voice is a {type(voice).__name__}; allowed: a Voice, a VoiceSample")
    _require_ending(file)
    tables = _tables(file) if file.exists() else {}
    if name in tables and not replace:
        raise UsageError(
            f"{file} has a voice named {name!r} already. Take another name, or replace it: --force, or replace=True"
        )
    if isinstance(voice, Voice):
        entry = {"voice": voice.to_string()}
    else:
        entry = {"sample": voice.to_string(), "transcript": voice.transcript}
    wanted = tables | {name: entry}
    text = _toml(file, wanted, name) if file.suffix.lower() == ".toml" else _json(wanted)
    try:
        with new_file(file) as work:
            work.write_text(text, "utf-8", newline="\n")
    except OSError as error:
        raise TrtTtsError(f"cannot write {file}: {error.strerror or error}") from error
    return file


def require_name(name: str) -> None:
    """Raises UsageError unless `name` can name a voice."""
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip():
        raise UsageError(
            f"the voice's name is {name!r}; allowed: 1 to {LONGEST_NAME} visible characters, no space at the ends"
        )


def _require_ending(file: Path) -> None:
    if file.suffix.lower() not in (".toml", ".json"):
        raise UsageError(f"cannot keep voices in {file.name!r}: the file's ending must be .toml or .json")


def _tables(file: Path) -> dict[str, Any]:
    """What a file holds, checked no further than that it is a table."""
    _require_ending(file)
    try:
        text = file.read_text("utf-8-sig")
        found = tomllib.loads(text) if file.suffix.lower() == ".toml" else json.loads(text)
    except FileNotFoundError:
        raise VoiceError(f"there is no voice file {file}. Make one: trt-tts voices new NAME --voices {file}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise VoiceError(f"{file} is no readable voice file: {error}") from error
    if not isinstance(found, dict):
        raise VoiceError(f"{file}: expected a table for each voice, found {type(found).__name__}")
    return found


def _voice(file: Path, name: str, entry: Any) -> AnyVoice:
    place = f"{file}, voice {name!r}"
    if not isinstance(entry, dict) or set(entry) not in _KEYS:
        keys = ", ".join(entry) if isinstance(entry, dict) else type(entry).__name__
        raise VoiceError(f"{place}: found {keys or 'nothing'}; allowed: voice, or sample and transcript")
    try:
        require_name(name)
        if "voice" in entry:
            return Voice.from_string(entry["voice"], name)
        return VoiceSample.from_string(entry["sample"], entry["transcript"], name)
    except (VoiceError, UsageError) as error:
        raise VoiceError(f"{place}: {error}") from error


def _json(tables: dict[str, Any]) -> str:
    return json.dumps(tables, indent=1, ensure_ascii=False) + "\n"


def _toml(file: Path, tables: dict[str, Any], name: str) -> str:
    """The file's text with the table of `name` at its end, and not where it was; anew where that goes wrong."""
    before = file.read_text("utf-8-sig") if file.exists() else ""
    kept, inside = [], False
    for line in before.splitlines():
        if line.lstrip().startswith("["):
            inside = _header(line) == name
        if not inside:
            kept.append(line)
    edited = "\n".join([*kept, *([""] if kept and kept[-1].strip() else []), _toml_table(name, tables[name])])
    try:
        if tomllib.loads(edited) == tables:
            return edited
    except tomllib.TOMLDecodeError:
        pass
    return "\n".join(_toml_table(key, entry) for key, entry in tables.items())


def _header(line: str) -> str | None:
    """The name that a table's header names."""
    try:
        return next(iter(tomllib.loads(line)))
    except (tomllib.TOMLDecodeError, StopIteration):
        return None


def _toml_table(name: str, entry: dict[str, str]) -> str:
    lines = [f"[{_toml_string(name)}]", *(f"{key} = {_toml_string(value)}" for key, value in entry.items())]
    return "\n".join(lines) + "\n"


def _toml_string(text: str) -> str:
    """JSON's strings are TOML's, but for one character that JSON does not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
