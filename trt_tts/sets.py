"""Which engine set a command uses when none is named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from trt_tts.errors import EngineSetError
from trt_tts.manifest import MANIFEST, Manifest
from trt_tts.target import require_runs_on, this_machine

ENVIRONMENT = "TRT_TTS_ENGINE"
FOLDER = Path("engines")


@dataclass(frozen=True)
class SetChoice:
    """An engine-set folder and why it was chosen."""

    path: Path
    reason: str


def choose_set(named: Path | None, any_backend: bool = False) -> SetChoice:
    """`named`, else $TRT_TTS_ENGINE, else the newest set in ./engines that can run here, or of `any_backend`.

    Raises:
        EngineSetError: there is none.
    """
    if named is not None:
        return SetChoice(named, "named by --engine")
    if os.environ.get(ENVIRONMENT):
        return SetChoice(Path(os.environ[ENVIRONMENT]), f"named by {ENVIRONMENT}")
    found = [entry for entry in FOLDER.glob(f"[!.]*/{MANIFEST}") if _fits(entry.parent, any_backend)]
    newest = max(found, key=_age, default=None)
    if newest is None:
        raise EngineSetError(
            f"no engine set in {FOLDER.absolute()} runs here. Build one: trt-tts build. Or name the folder of one"
        )
    return SetChoice(newest.parent, f"the newest in {FOLDER}")


def _fits(folder: Path, any_backend: bool) -> bool:
    try:
        manifest = Manifest.load(folder)
        if manifest.backend != "cpu" and not any_backend:
            require_runs_on(this_machine(), folder, manifest)
    except EngineSetError:
        return False
    return True


def _age(manifest: Path) -> float:
    return manifest.stat().st_mtime
