"""The voice file that commands use, and which voice a name means."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from trt_tts.errors import VoiceError
from trt_tts.voice import may_be_string
from trt_tts.voice_file import AnyVoice, read_voices

ENVIRONMENT = "TRT_TTS_VOICES"
FILE = Path("voices.toml")


@dataclass(frozen=True)
class UserVoices:
    """The voices of the user's file."""

    file: Path | None
    voices: dict[str, AnyVoice] = field(default_factory=dict)

    def resolve(self, voice: str | None, of_the_set: list[str]) -> str | AnyVoice | None:
        """A voice of the file, or what else the engine may know.

        Raises:
            VoiceError: a name that neither knows.
        """
        if voice is None:
            return None
        if voice in self.voices:
            return self.voices[voice]
        if voice not in of_the_set and not may_be_string(voice):
            theirs = f"; of {self.file}: {', '.join(self.voices) or 'none'}" if self.file else ""
            raise VoiceError(
                f"no voice named {voice!r}. Of the engine set: {', '.join(of_the_set) or 'none'}{theirs}. A ChatTTS "
                f"speaker string works too; new names: trt-tts voices new"
            )
        return voice


def user_voices(named: Path | None) -> UserVoices:
    """Of `named`, else $TRT_TTS_VOICES, else ./voices.toml if it is there.

    Raises:
        VoiceError, UsageError: the file is missing, damaged, or of another kind.
    """
    file = named or (Path(os.environ[ENVIRONMENT]) if os.environ.get(ENVIRONMENT) else None)
    if file is None:
        file = FILE if FILE.is_file() else None
    return UserVoices(file, read_voices(file) if file else {})


def file_to_write(named: Path | None) -> Path:
    """Where a new voice goes: `named`, else $TRT_TTS_VOICES, else ./voices.toml."""
    return named or Path(os.environ.get(ENVIRONMENT) or FILE)
