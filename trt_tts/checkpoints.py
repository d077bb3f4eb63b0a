"""Which checkpoint a command uses when none is named."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from trt_tts.demo import demo_checkpoint
from trt_tts.files import SUMS

ENVIRONMENT = "TRT_TTS_CHECKPOINT"


@dataclass(frozen=True)
class CheckpointChoice:
    """A checkpoint folder and why it was chosen."""

    path: Path
    reason: str


def fetched_checkpoint() -> Path:
    """Where `trt-tts fetch` puts the published checkpoint by default."""
    return Path(platformdirs.user_data_dir("trt-tts", appauthor=False)) / "ChatTTS"


def choose_checkpoint(named: Path | None) -> CheckpointChoice:
    """`named`, else $TRT_TTS_CHECKPOINT, else a fetched one, else the demo voice."""
    if named is not None:
        return CheckpointChoice(named, "named by --checkpoint")
    if os.environ.get(ENVIRONMENT):
        return CheckpointChoice(Path(os.environ[ENVIRONMENT]), f"named by {ENVIRONMENT}")
    if (fetched_checkpoint() / SUMS).is_file():  # written last: a download that was cut off has none
        return CheckpointChoice(fetched_checkpoint(), "the fetched ChatTTS checkpoint")
    return CheckpointChoice(demo_checkpoint(), "the demo voice that comes with trt-tts")
