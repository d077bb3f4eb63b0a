"""Texts and options -> requests for the decode loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from trt_tts.backend import I32
from trt_tts.errors import CapacityError, VoiceError
from trt_tts.generation import Prompt, Request, Sampling
from trt_tts.manifest import TEXT_EMBEDDING, TOKENIZER, VOICES
from trt_tts.model_config import GptConfig
from trt_tts.options import SynthesisOptions
from trt_tts.text.clean import CleanText, clean_text
from trt_tts.text.language import main_language
from trt_tts.text.prompt import SPEAKER, speech_prompt
from trt_tts.text.segments import PARAGRAPH_PAUSE, Segment, split_paragraphs, split_text
from trt_tts.text.tokenizer import load_tokenizer
from trt_tts.voice import Voice
from trt_tts.voice_sample import VoiceSample
from trt_tts.voices import VoiceBook

MOST_TOKENS = 120
"""In longer segments the model drops words."""
STEPS_PER_TOKEN = 16
"""Generous for a word piece or a Chinese character: a token of text becomes a third of a second at most."""
FEWEST_TOKENS = 8


@dataclass(frozen=True)
class PreparedText:
    """What becomes of a text before it is spoken."""

    paragraphs: tuple[CleanText, ...]
    """Each with the stages it went through, and what was left out of it."""
    segments: tuple[Segment, ...]
    """Spoken one at a time."""
    tokens: tuple[int, ...]
    """Of each segment's text."""


class Frontend:
    """The tokenizer, voices and text embedding of a set, and what they make of a text."""

    def __init__(self, folder: Path, sizes: GptConfig, capacity: int, prompt: str | None, alphabet: str | None) -> None:
        self.sizes, self.capacity, self.prompt = sizes, capacity, prompt
        self.tokenizer = load_tokenizer(folder / TOKENIZER, alphabet)
        self.book = VoiceBook.load(folder / VOICES)
        self.text_embedding = np.load(folder / TEXT_EMBEDDING, mmap_mode="r")
        # Every segment of a text asks for the same one.
        self._clean_once = lru_cache(maxsize=16)(partial(clean_text, tokenizer=self.tokenizer))

    def paragraphs(self, text: str, options: SynthesisOptions) -> list[CleanText]:
        """The paragraphs of a text, as this voice speaks them.

        Raises:
            TextError: it cannot.
        """
        if not isinstance(text, str):
            return [self.clean(text, options.normalize)]
        language = main_language(text) if options.language == "auto" else options.language
        return [self.clean(part, options.normalize, language) for part in split_paragraphs(text)]

    def clean(self, text: str, normalize: bool, language: str = "auto") -> CleanText:
        """The text as this voice speaks it.

        Raises:
            TextError: it cannot.
        """
        return clean_text(text, self.tokenizer, normalize, language)

    def prepare(self, text: str, options: SynthesisOptions) -> PreparedText:
        """What becomes of a text, but for the refine pass.

        Raises:
            TextError: this voice cannot speak it.
        """
        paragraphs = self.paragraphs(text, options)
        segments = self.segments([paragraph.text for paragraph in paragraphs], options)
        tokens = tuple(len(self.tokenizer.encode(segment.text)) for segment in segments)
        return PreparedText(tuple(paragraphs), segments, tokens)

    def segments(self, paragraphs: Sequence[str], options: SynthesisOptions) -> tuple[Segment, ...]:
        """Cleaned paragraphs in parts that fit the capacity together with the speech they become.

        Raises:
            VoiceError: the voice sample leaves them no room.
        """
        room = self.capacity - self._sample_positions(options)
        most = max(FEWEST_TOKENS, min(MOST_TOKENS, room // STEPS_PER_TOKEN))
        parts: list[Segment] = []
        for text in paragraphs:
            if parts:
                parts[-1] = replace(parts[-1], pause=PARAGRAPH_PAUSE)
            parts += split_text(text, lambda part: len(self.tokenizer.encode(part)), most)
        return tuple(parts)

    def request(self, text: str, options: SynthesisOptions, seed: int, segment: int = 0) -> Request:
        """What the decode loop needs to speak a segment.

        Args:
            text: a part of a cleaned text.
            options: how to speak it.
            seed: of the whole text.
            segment: index of the part.

        Raises:
            VoiceError: no such voice.
            CapacityError: the text is longer than the set was built for.
        """
        sample = options.voice if isinstance(options.voice, VoiceSample) else None
        transcript = None if sample is None else self._transcript(sample, options)
        ids = np.array(self.tokenizer.encode(speech_prompt(text, options.speed, self.prompt, transcript)), np.int32)
        voice = self._speaker(options)
        length = len(ids) + (0 if sample is None else sample.steps)
        room = self._room(length, max(options.min_steps, 1))
        return Request(
            prompt=partial(self._prompt, ids, voice),
            sampling=Sampling(options.temperature, options.top_p, options.top_k, options.repetition_penalty),
            seed=seed,
            segment=segment,
            max_steps=min(options.max_steps or room, room),
            min_steps=options.min_steps,
        )

    def _speaker(self, options: SynthesisOptions) -> Voice | VoiceSample:
        if isinstance(options.voice, VoiceSample):
            return options.voice.checked(self.sizes)
        return self.book.resolve(options.voice, self.sizes.hidden_size)

    def _prompt(self, ids: I32, voice: Voice | VoiceSample) -> Prompt:
        embedded = self.text_embedding[ids].astype(np.float32)
        if isinstance(voice, VoiceSample):
            return Prompt.of(embedded, np.ascontiguousarray(voice.codes.T))
        embedded[ids == self.tokenizer.special(SPEAKER)] = voice.normalised()
        return Prompt.of(embedded, np.zeros((0, self.sizes.num_vq), np.int32))

    def _transcript(self, sample: VoiceSample, options: SynthesisOptions) -> str:
        return self._clean_transcript(sample, options).text

    def sample_warnings(self, options: SynthesisOptions) -> list[str]:
        """What was changed in the transcript of a voice sample."""
        if not isinstance(options.voice, VoiceSample):
            return []
        warnings = self._clean_transcript(options.voice, options).warnings
        return [f"the voice sample's transcript: {item}" for item in warnings]

    def _clean_transcript(self, sample: VoiceSample, options: SynthesisOptions) -> CleanText:
        return self._clean_once(sample.transcript, normalize=options.normalize, language=options.language)

    def _sample_positions(self, options: SynthesisOptions) -> int:
        """Positions that a voice sample and its transcript take of every segment's."""
        if not isinstance(options.voice, VoiceSample):
            return 0
        sample = options.voice
        taken = sample.steps + len(self.tokenizer.encode(self._transcript(sample, options)))
        most = self.capacity - FEWEST_TOKENS * STEPS_PER_TOKEN
        if taken > most:
            raise VoiceError(
                f"the voice sample of {sample.seconds:.1f} s takes {taken} of this engine set's {self.capacity} "
                f"positions per sequence; allowed: {most}. Take a shorter one, or build a set with a larger "
                f"--max-seconds"
            )
        return taken

    def any_voice(self) -> Voice:
        """The default voice, or some voice where the set has none."""
        if self.book.voices or self.book.statistics:
            return self.book.default()
        return Voice.from_vector(np.ones(self.sizes.hidden_size))

    def voice_in_turn(self, index: int) -> Voice:
        """One of the named voices, else a random one, else `any_voice`: a fixed function of `index`."""
        named = list(self.book.voices.values())
        if named:
            return named[index % len(named)]
        return self.book.random(index) if self.book.statistics else self.any_voice()

    def _room(self, prompt: int, least: int) -> int:
        if self.capacity - prompt < least:
            raise CapacityError(
                f"{prompt} tokens of text and at least {least} steps do not fit this engine set's {self.capacity} "
                f"positions per sequence. Split the text, lower min_steps, or build a set with a larger --max-seconds"
            )
        return self.capacity - prompt
