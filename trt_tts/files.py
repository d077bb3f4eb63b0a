"""Small file helpers with one clear error each."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trt_tts.errors import TrtTtsError, UsageError

SUMS = "SHA256SUMS"
_SUM = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")


def sha256_of(file: Path) -> str:
    """The sha256 of a file's bytes, in hex."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def read_json(file: Path, error: type[TrtTtsError]) -> dict[str, Any]:
    """Read a UTF-8 JSON object (a byte-order mark is allowed).

    Raises:
        error: the file cannot be read or holds something else; names the file.
    """
    try:
        value = json.loads(file.read_text("utf-8-sig"))
    except FileNotFoundError:
        raise error(f"{file} is missing") from None
    except (OSError, ValueError) as cause:
        raise error(f"{file} is not readable JSON: {cause}") from cause
    if not isinstance(value, dict):
        raise error(f"{file}: expected a JSON object, found {type(value).__name__}")
    return value


def read_sums(folder: Path, error: type[TrtTtsError]) -> dict[str, str]:
    """Name -> sha256 from `folder`/SHA256SUMS (the sha256sum format); empty when there is none."""
    file = folder / SUMS
    if not file.is_file():
        return {}
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as cause:
        raise error(f"{file} is not readable: {cause}") from cause
    sums = {}
    for line in lines:
        match = _SUM.fullmatch(line)
        if match is None:
            raise error(f"{file}: not a line of sha256sum output: {line!r}")
        sums[match[2]] = match[1].lower()
    return sums


def write_sums(folder: Path, sums: dict[str, str]) -> None:
    """Write `folder`/SHA256SUMS; `sha256sum -c` reads it too."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))
    (folder / SUMS).write_text(text, "utf-8", newline="\n")


def require_new(target: Path, force: bool, ours: Callable[[Path], bool]) -> None:
    """Check that a folder may be written at `target`.

    Args:
        target: the folder.
        force: replace what is there, if it is empty or `ours` says so; nothing else is ever deleted.
        ours: whether an existing folder holds only what the caller wrote.

    Raises:
        UsageError: it may not.
    """
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder. Choose another -o")
    if Path.cwd().is_relative_to(target.resolve()):
        raise UsageError(f"{target} is the folder you stand in, or holds it. Choose another -o")
    if any(target.iterdir()) and not ours(target):
        raise UsageError(f"{target} holds other files and is never overwritten. Choose another -o")
    if not force:
        raise UsageError(f"{target} exists already. Choose another -o, or overwrite it with --force")


@contextmanager
def new_folder(target: Path, force: bool, ours: Callable[[Path], bool]) -> Iterator[Path]:
    """Yield a temporary folder beside `target` that becomes `target` when the block ends without an error.

    Raises:
        UsageError: as `require_new`, or the parent cannot be written.
        TrtTtsError: the finished folder cannot be put in place.
    """
    require_new(target, force, ours)
    target = target.resolve()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    except OSError as cause:
        raise UsageError(f"cannot write to {target.parent}: {cause.strerror}. Choose another -o") from cause
    try:
        work.chmod(0o755)
        yield work
        require_new(target, force, ours)
        _put_in_place(work, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put_in_place(work: Path, target: Path) -> None:
    old = work.with_name(work.name + "-old")
    try:
        if target.exists():
            target.rename(old)
        try:
            work.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise
    except OSError as cause:
        raise TrtTtsError(
            f"cannot replace {target}: {cause.strerror}. Close the programs that use it and run the command again"
        ) from cause
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` that replaces `target` when the block ends without an error."""
    work = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
    try:
        yield work
        work.replace(target)
    finally:
        work.unlink(missing_ok=True)


def require_writable(target: Path) -> None:
    """Check that a file can be written at `target`, before work is spent on what it will hold.

    Raises:
        UsageError: it cannot.
    """
    if target.is_dir():
        raise UsageError(f"cannot write {target}: it is a folder. Choose another file")
    try:
        with tempfile.TemporaryFile(dir=target.absolute().parent):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write {target}: {target.absolute().parent}: {error.strerror}. Choose another file"
        ) from error


def require_free_space(folder: Path, needed: int) -> None:
    """Check that the disk under `folder` (or its nearest existing parent) has `needed` bytes free.

    Raises:
        TrtTtsError: it has not.
        UsageError: there is no such drive.
    """
    existing = next((path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()), None)
    if existing is None:
        raise UsageError(f"cannot write to {folder}: there is no such drive. Choose another -o")
    free = shutil.disk_usage(existing).free
    if free < needed:
        raise TrtTtsError(
            f"not enough disk space in {existing}: {needed / 1e6:.0f} MB needed, {free / 1e6:.0f} MB free. "
            f"Free some, or write elsewhere with -o"
        )
