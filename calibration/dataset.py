"""The texts a calibration speaks."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from trt_tts.errors import UsageError

DEFAULT = "default"
CORPUS = Path(__file__).parent / "corpus"
OWN_TEXTS = "train.txt"
"""In a checkpoint's folder: the texts its voice was trained on."""
FEWEST = 8
"""Distinct texts below which the statistics would be those of a few sentences."""
FEWEST_WORDS = 10
_SUFFIXES = (".txt", ".jsonl", ".csv")
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W\d_\u3400-\u9fff]+")
"""A Chinese character, or a word of other letters."""


@dataclass(frozen=True)
class Dataset:
    """Distinct texts in the order of their files."""

    source: str
    texts: tuple[str, ...]

    @property
    def sha256(self) -> str:
        """Of the texts, one a line."""
        return hashlib.sha256("\n".join(self.texts).encode()).hexdigest()


def load_dataset(name: str, checkpoint: Path) -> Dataset:
    """Read texts to calibrate on.

    Args:
        name: what `read_texts` reads, or "default": the texts that belong to the checkpoint, else the corpora that come
            with the program.
        checkpoint: the checkpoint's folder.

    Raises:
        UsageError: as `read_texts`, or the texts are too few or all alike.
    """
    path = Path(name)
    if name == DEFAULT:
        own = checkpoint / OWN_TEXTS
        path = own if own.is_file() else CORPUS
    elif not path.exists():
        raise UsageError(f"there is no dataset {path}. Name a folder or a file of texts, or take --dataset {DEFAULT}")
    texts = read_texts(path)
    if len(texts) < FEWEST:
        raise UsageError(
            f"the dataset {path} holds {len(texts)} distinct texts; at least {FEWEST} are needed, hundreds are good. "
            f"Or take --dataset {DEFAULT}"
        )
    words = {word for text in texts for word in _WORD.findall(text.lower())}
    if len(words) < FEWEST_WORDS:
        raise UsageError(
            f"the {len(texts)} texts of the dataset {path} are all alike: they hold {len(words)} distinct words or "
            f"characters, and at least {FEWEST_WORDS} are needed. Take texts as various as what is to be spoken"
        )
    return Dataset(str(path), texts)


def read_texts(path: Path) -> tuple[str, ...]:
    """Distinct texts in the order of their files.

    Args:
        path: a folder, a .txt (one sentence a line), .jsonl (objects with "text") or LJSpeech-style .csv (last field of
            id|...|text) file in UTF-8.

    Raises:
        UsageError: nothing is there, or a file is malformed or not UTF-8.
    """
    if not path.exists():
        raise UsageError(f"there are no texts at {path}: no such file or folder")
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"the folder {path} holds no {', '.join(_SUFFIXES)} file")
    return tuple(dict.fromkeys(text for file in files for text in _read(file) if text))


def _read(file: Path) -> list[str]:
    try:
        content = file.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 (byte {error.start}). Convert it first") from error
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    if file.suffix.lower() == ".jsonl":
        return [_field(file, i, line) for i, line in enumerate(content.splitlines(), 1) if line.strip()]
    if file.suffix.lower() == ".csv":
        rows = [row for row in csv.reader(content.splitlines(), delimiter="|", quoting=csv.QUOTE_NONE) if row]
        if any(len(row) < 2 for row in rows):
            raise UsageError(
                f"{file} is not of the form id|text: a line holds no |. Write the texts alone to a .txt file"
            )
        return [row[-1].strip() for row in rows]
    return [line.strip() for line in content.splitlines()]


def _field(file: Path, number: int, line: str) -> str:
    try:
        text = json.loads(line)["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f'{file}, line {number}: not a JSON object with "text" ({error})') from error
    if not isinstance(text, str):
        raise UsageError(f'{file}, line {number}: "text" is {text!r}, not a string')
    return text.strip()
