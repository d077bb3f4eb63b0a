"""The voices of an engine set and how a request names one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from trt_tts.errors import EngineSetError, VoiceError
from trt_tts.files import read_json
from trt_tts.voice import SpeakerStatistics, Voice, may_be_string


@dataclass(frozen=True, eq=False)
class VoiceBook:
    """Named voices, and the statistics random voices are drawn from."""

    voices: dict[str, Voice]
    statistics: SpeakerStatistics | None

    def save(self, file: Path) -> None:
        """Write voices.json: ChatTTS strings throughout."""
        data = {
            "voices": {name: voice.to_string() for name, voice in self.voices.items()},
            "statistics": self.statistics.to_string() if self.statistics else None,
        }
        file.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", "utf-8", newline="\n")

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read voices.json.

        Raises:
            EngineSetError: it is missing or damaged.
        """
        data = read_json(file, EngineSetError)
        try:
            voices = {name: Voice.from_string(text, name) for name, text in data["voices"].items()}
            statistics = SpeakerStatistics.from_string(data["statistics"]) if data["statistics"] else None
        except (KeyError, AttributeError, TypeError, VoiceError) as error:
            raise EngineSetError(f"{file} is damaged: {error}. Build the set again: trt-tts build") from error
        return cls(voices, statistics)

    def default(self) -> Voice:
        """The first named voice, else `random(0)`."""
        return next(iter(self.voices.values())) if self.voices else self.random(0)

    def random(self, seed: int) -> Voice:
        """A voice drawn from the checkpoint's statistics.

        Raises:
            VoiceError: the checkpoint came without them.
        """
        if self.statistics is None:
            raise VoiceError(
                "this checkpoint came without speaker statistics, so there are no random voices. "
                "Get asset/spk_stat.pt with trt-tts fetch, build the set again, or give a voice string"
            )
        return Voice.random(self.statistics, seed)

    def resolve(self, voice: str | Voice | None, width: int) -> Voice:
        """The voice a request means: a name, a ChatTTS speaker string, a `Voice`, or None for the default.

        Raises:
            VoiceError: there is no such voice, or it is malformed.
        """
        if voice is None:
            return self.default()
        if isinstance(voice, str):
            if voice in self.voices:
                return self.voices[voice]
            if not may_be_string(voice):
                names = ", ".join(self.voices) or "none"
                raise VoiceError(
                    f"no voice named {voice!r}. Named voices: {names}. "
                    f"A ChatTTS voice string (Chinese characters) works too"
                )
            voice = Voice.from_string(voice)
        return voice.checked(width)
