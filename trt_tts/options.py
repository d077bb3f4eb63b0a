"""How a text is spoken."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any

from trt_tts.errors import UsageError
from trt_tts.voice import Voice
from trt_tts.voice_sample import VoiceSample

LANGUAGES = ("auto", "en", "zh")
LARGEST_SEED = 2**63 - 1
MOST_LOOKAHEAD = 255
SMALLEST_TEMPERATURE = 1e-3
"""At or below it the most likely code is taken: dividing by less would drown the sampling noise anyway."""
SMALLEST_TOP_P = 1e-3
"""At or below it too: of 626 codes the most likely one has more."""


@dataclass(frozen=True)
class SynthesisOptions:
    """Options of one synthesis; the defaults are ChatTTS's.

    Raises:
        UsageError: a value is out of range; names the option, the value and what is allowed.
    """

    voice: str | Voice | VoiceSample | None = None
    """A named voice, a ChatTTS speaker string, a `Voice` or a `VoiceSample`; None takes the engine set's default."""
    speed: int = 5
    """0 (slow) to 9 (fast)."""
    oral: int | None = None
    """Fillers the refine pass adds, 0 to 9."""
    laugh: int | None = None
    """Laughter the refine pass adds, 0 to 2."""
    pause: int | None = None
    """Pauses the refine pass adds, 0 to 7."""
    temperature: float = 0.3
    """0 takes the most likely code at every step."""
    top_p: float = 0.7
    """Codes are drawn from the likeliest that together have this probability, 3 at least; 0 takes the likeliest."""
    top_k: int = 20
    """So many of them at most: 1 takes the likeliest, 2 means 3, 0 as many as the graph offers (50)."""
    repetition_penalty: float = 1.05
    max_steps: int | None = None
    """Generation steps of a segment (46.875 per second of audio); None uses what the set's capacity leaves."""
    min_steps: int = 0
    seed: int | None = None
    """None draws one; the result reports it."""
    refine: bool = False
    """Rewrite the text with pauses and fillers before speaking it."""
    normalize: bool = True
    """Spell out numbers and symbols, fold what the voice does not know, and say in the warnings what was left out."""
    use_decoder: bool = True
    """True makes sound from hidden states, False from the codes alone (the DVAE path)."""
    lookahead: int | None = None
    """Steps after a sound that the codec looks at before it is given out; None: all it depends on, exact; 0 to 255."""
    language: str = "auto"
    """How numbers and symbols are read: "en", "zh", or "auto", by the words around them."""

    def __post_init__(self) -> None:
        require_whole("speed", self.speed, 0, 9)
        for name, most in (("oral", 9), ("laugh", 2), ("pause", 7)):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name), 0, most)
        _number("temperature", self.temperature, 0.0, 10.0)
        _number("top_p", self.top_p, 0.0, 1.0)
        require_whole("top_k", self.top_k, 0, 1_000_000)
        _number("repetition_penalty", self.repetition_penalty, 0.1, 10.0)
        if self.max_steps is not None:
            require_whole("max_steps", self.max_steps, 1, 1_000_000)
        require_whole("min_steps", self.min_steps, 0, 1_000_000)
        if self.max_steps is not None and self.min_steps > self.max_steps:
            raise UsageError(f"min_steps {self.min_steps} is above max_steps {self.max_steps}")
        if self.seed is not None:
            require_whole("seed", self.seed, 0, LARGEST_SEED)
        if self.lookahead is not None:
            require_whole("lookahead", self.lookahead, 0, MOST_LOOKAHEAD)
        for name in ("refine", "normalize", "use_decoder"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} is {getattr(self, name)!r}; allowed: True, False")
        if self.language not in LANGUAGES:
            raise UsageError(f"language is {self.language!r}; allowed: {', '.join(LANGUAGES)}")
        if self.voice is not None and not isinstance(self.voice, str | Voice | VoiceSample):
            raise UsageError(
                f"voice is {self.voice!r}; allowed: a voice's name, a speaker string, a Voice, a VoiceSample"
            )

    def override(self, **values: Any) -> SynthesisOptions:
        """A copy with some options replaced.

        Raises:
            UsageError: an option does not exist or a value is out of range.
        """
        names = [item.name for item in fields(self)]
        unknown = [name for name in values if name not in names]
        if unknown:
            raise UsageError(f"unknown option {unknown[0]!r}; the options are {', '.join(names)}")
        return replace(self, **values)


def require_whole(name: str, value: Any, least: int, most: int) -> None:
    """Raises UsageError, naming `name` and `value`, unless `value` is a whole number from `least` to `most`."""
    if not isinstance(value, Integral) or isinstance(value, bool) or not least <= int(value) <= most:
        raise UsageError(f"{name} is {value!r}; allowed: whole numbers from {least} to {most}")


def _number(name: str, value: Any, least: float, most: float) -> None:
    if not isinstance(value, Real) or isinstance(value, bool) or not least <= float(value) <= most:
        raise UsageError(f"{name} is {value!r}; allowed: {least:g} to {most:g}")
