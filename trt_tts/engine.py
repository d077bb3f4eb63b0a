"""The engine an application loads."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from trt_tts.audio import Audio
from trt_tts.backend import Backend, MemoryPart
from trt_tts.cpu.threads import usable_threads
from trt_tts.errors import GenerationError, UsageError, VoiceError
from trt_tts.frontend import Frontend, PreparedText
from trt_tts.loading import open_backend, read_set
from trt_tts.manifest import Limits, Manifest
from trt_tts.model_config import MAX_CANDIDATES
from trt_tts.options import MOST_LOOKAHEAD, SynthesisOptions, require_whole
from trt_tts.progress import Progress
from trt_tts.recording import prepare_recording
from trt_tts.refine import refine_text
from trt_tts.speaking import Speaker
from trt_tts.speech import Job
from trt_tts.text.clean import CleanText
from trt_tts.text.prompt import TRAINED_SPEED, refine_prompt
from trt_tts.voice import Voice
from trt_tts.voice_sample import VoiceSample

logger = logging.getLogger("trt_tts")
LOOKAHEAD_TEXT, LOOKAHEAD_STEPS = "the engine is ready", 160
"""What `Engine.lookahead_snr` speaks, and the most steps of it."""
MOST_DEVICES = 255
MOST_THREADS = 256
MOST_BYTES = 1 << 62


@dataclass(frozen=True)
class EngineInfo:
    """What was loaded, and why it runs where it runs."""

    path: Path
    backend: str
    reason: str
    precision: str
    card: str | None
    threads: int
    checkpoint: str
    limits: Limits
    memory: tuple[MemoryPart, ...]
    """Exact bytes by part; it grows when a graph is used for the first time."""


class Engine:
    """A loaded engine set. Thread-safe: calls from several threads share the batch and do not influence each other."""

    def __init__(self, path: Path, manifest: Manifest, backend: Backend, threads: int) -> None:
        """Use `Engine.load`."""
        self._path, self._manifest, self._backend, self._threads = path, manifest, backend, threads
        self._speaker = Speaker(backend, manifest.config, manifest.limits)
        self._lookahead_snr: dict[tuple[int, bool], float] = {}
        capacity = manifest.limits.capacity
        self._frontend = Frontend(path, manifest.config.gpt, capacity, manifest.prompt, manifest.alphabet)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        backend: str = "auto",
        device: int = 0,
        threads: int | None = None,
        memory_limit: int | None = None,
    ) -> Self:
        """Load an engine set, after checking every file against its recorded hash.

        Args:
            path: the set's folder.
            backend: "auto" takes the one the set was built for.
            device: index of the GPU; the CPU backend has none and ignores it.
            threads: CPU threads; None takes what the affinity mask and the container's quota allow.
            memory_limit: most bytes of GPU memory to hold; None takes what is free. The CPU backend ignores it.

        Raises:
            EngineSetError: the folder is incomplete, damaged, or built for something else.
            UsageError: an argument is out of range.
            CapacityError: the set takes more GPU memory than is free or allowed; the message says what would fit.
            TrtTtsError: there is not enough memory.
        """
        folder = Path(path).absolute()
        require_whole("device", device, 0, MOST_DEVICES)
        if threads is not None:
            require_whole("threads", threads, 1, MOST_THREADS)
        if memory_limit is not None:
            require_whole("memory_limit", memory_limit, 1, MOST_BYTES)
        manifest = read_set(folder, backend)
        count = threads or usable_threads()
        opened = open_backend(folder, manifest, device, count, memory_limit)
        try:
            engine = cls(folder, manifest, opened, count)
        except BaseException:
            opened.close()
            raise
        logger.info("%s: %s backend, %s", folder, opened.name, opened.reason)
        return engine

    @property
    def info(self) -> EngineInfo:
        """Backend and why, precision, memory, limits."""
        self._speaker.require_open()
        manifest, backend = self._manifest, self._backend
        table = MemoryPart("text embedding", int(self._frontend.text_embedding.nbytes), "host")
        return EngineInfo(
            path=self._path,
            backend=backend.name,
            reason=backend.reason,
            precision=manifest.precision,
            card=manifest.target.card,
            threads=self._threads,
            checkpoint=manifest.checkpoint.name,
            limits=manifest.limits,
            memory=(*backend.memory(), table),
        )

    @property
    def voices(self) -> dict[str, Voice]:
        """The set's named voices; the first is the default."""
        return dict(self._frontend.book.voices)

    def synthesize(
        self,
        text: str,
        options: SynthesisOptions | None = None,
        progress: Progress = lambda stage: None,
        **overrides: Any,
    ) -> Audio:
        """Speak a text of any length: segment by segment, `max_batch` of them at a time, with pauses between.

        Args:
            text: what to say.
            options: how; None takes the defaults.
            progress: called with "speaking 3/7" as segments end.
            overrides: single options by name, for example `seed=7`.

        Raises:
            TextError: this voice cannot speak the text.
            VoiceError: no such voice.
            CapacityError: the set's capacity leaves no room for a segment, or for `min_steps`.
            GenerationError: the model's numbers were not finite.
        """
        return self.synthesize_batch([text], options, progress, **overrides)[0]

    def synthesize_batch(
        self,
        texts: Sequence[str],
        options: SynthesisOptions | None = None,
        progress: Progress = lambda stage: None,
        **overrides: Any,
    ) -> list[Audio]:
        """Speak several texts, up to `max_batch` of their segments at a time; each as `synthesize` would alone.

        Raises:
            as `synthesize`. A text that cannot be spoken fails the call before anything is generated. A
            `GenerationError` carries the results of the other texts as `finished`.
        """
        if isinstance(texts, str) or not isinstance(texts, Sequence):
            raise UsageError("synthesize_batch takes a list of texts; use synthesize for one")
        options = self._options(options, overrides)
        speeches = self._speaker.speak([self._prepare(text, options) for text in texts], options, progress)
        finished: list[Audio | None] = []
        failure: GenerationError | None = None
        for speech in speeches:
            try:
                finished.append(speech.audio())
            except GenerationError as error:
                finished.append(None)
                failure = failure or error
        if failure is not None:
            failure.finished = finished
            raise failure
        return [audio for audio in finished if audio is not None]

    def stream(
        self, text: str, options: SynthesisOptions | None = None, **overrides: Any
    ) -> Generator[Audio, None, None]:
        """Speak a text piece by piece, each as soon as its sound is settled.

        The joined samples are those of `synthesize`, bit for bit. Calls and streams of several threads share the
        batch. Closing the iterator, or leaving the loop over it, frees its rows.

        Args:
            text: what to say.
            options: how; None takes the defaults.
            overrides: single options by name, for example `seed=7`.

        Returns:
            Chunks: `text` is the segment that is spoken, `steps` and `warnings` are the chunk's own.

        Raises:
            as `synthesize`; what is wrong with text or options already before the first chunk.
        """
        chosen = self._options(options, overrides)
        return self._speaker.stream(self._prepare(text, chosen), chosen)

    def prepare_text(self, text: str, options: SynthesisOptions | None = None, **overrides: Any) -> PreparedText:
        """How a text would be spoken: its stages of normalization and its segments. Nothing is generated.

        Raises:
            TextError: this voice cannot speak the text.
        """
        self._speaker.require_open()
        return self._frontend.prepare(text, self._options(options, overrides))

    def warm_up(self) -> Audio:
        """Do what a first call would do, so that it is as fast as the next; returns what was spoken.

        On a GPU this captures the CUDA graphs of the decode step. No later call allocates memory, but for the first
        with `refine` or without `use_decoder`.
        """
        with self._speaker.alone():
            self._backend.warm_up()
        return self.synthesize("a", voice=self._frontend.any_voice(), max_steps=8, min_steps=8, seed=0)

    def clone_voice(self, samples: Any, rate: int, transcript: str) -> VoiceSample:
        """A voice from a recording of 1 to 20 seconds, for the option `voice`.

        Args:
            samples: [n] or [n, channels], floats nominally within -1 .. 1 or signed 16- or 32-bit integers.
            rate: samples per second, 8000 to 192000.
            transcript: the words of the recording.

        Raises:
            UsageError: `samples` or `rate` is of another kind, or floats have the scale of integers.
            VoiceError: the recording is too short, too long, silent or not finite, or has no transcript.
            TextError: this voice cannot speak the transcript.
        """
        self._speaker.require_open()
        if not isinstance(transcript, str) or not transcript.strip():
            raise VoiceError(f"the transcript is {transcript!r}; expected the words of the recording")
        self._frontend.clean(transcript, normalize=True)
        recording = prepare_recording(samples, rate)
        with self._speaker.alone():
            codes = self._backend.encode_voice(recording)
        return VoiceSample.from_codes(codes, transcript)

    def first_sound_steps(self, lookahead: int | None = None, use_decoder: bool = True) -> int:
        """Steps after which `stream` has its first sound: with no `lookahead` a few more than the receptive field."""
        return self._speaker.windows(use_decoder, SynthesisOptions(lookahead=lookahead).lookahead).first_steps

    def lookahead_snr(self, lookahead: int, use_decoder: bool = True) -> float:
        """dB by which the exact sound of a short text exceeds its difference from the sound with that `lookahead`.

        The text is spoken once by the default voice, and decoded both ways; inf where they are equal. A value is
        computed once.

        Raises:
            UsageError: no lookahead.
            GenerationError: the model's numbers were not finite.
        """
        require_whole("lookahead", lookahead, 0, MOST_LOOKAHEAD)
        key = lookahead, use_decoder
        if key not in self._lookahead_snr:
            options = SynthesisOptions(voice=self._frontend.any_voice(), max_steps=LOOKAHEAD_STEPS)
            request = self._frontend.request(LOOKAHEAD_TEXT, options, seed=0)
            self._lookahead_snr[key] = self._speaker.lookahead_snr(request, lookahead, use_decoder)
        return self._lookahead_snr[key]

    def random_voice(self, seed: int) -> Voice:
        """A voice drawn from the checkpoint's speaker statistics, a fixed function of `seed`.

        Raises:
            VoiceError: the checkpoint came without statistics, or the seed is out of range.
        """
        return self._frontend.book.random(seed)

    def close(self) -> None:
        """Release the graphs and buffers; later calls raise. Closing again does nothing."""
        self._speaker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _options(self, options: SynthesisOptions | None, overrides: dict[str, Any]) -> SynthesisOptions:
        if options is not None and not isinstance(options, SynthesisOptions):
            raise UsageError(f"options is a {type(options).__name__}; expected SynthesisOptions, or options by name")
        return (options or SynthesisOptions()).override(**overrides)

    def _prepare(self, text: str, options: SynthesisOptions) -> Job:
        self._speaker.require_open()
        seed = secrets.randbits(32) if options.seed is None else options.seed
        paragraphs = self._frontend.paragraphs(text, options)
        if options.refine:
            with self._speaker.alone():
                paragraphs = [self._refine(clean, options, seed) for clean in paragraphs]
        segments = self._frontend.segments([clean.text for clean in paragraphs], options)
        requests = tuple(
            self._frontend.request(segment.text, options, seed, index) for index, segment in enumerate(segments)
        )
        warnings = dict.fromkeys(item for clean in paragraphs for item in clean.warnings)
        whole = "\n\n".join(clean.text for clean in paragraphs)
        return Job(whole, (*warnings, *self._option_warnings(options)), seed, segments, requests)

    def _refine(self, clean: CleanText, options: SynthesisOptions, seed: int) -> CleanText:
        """The text as the model rewrites it, segment by segment."""
        runner, head, frontend = self._backend.runner, self._backend.text_head(), self._frontend
        parts = []
        for segment in frontend.segments([clean.text], options):
            prompt = refine_prompt(segment.text, options.oral, options.laugh, options.pause)
            parts.append(refine_text(runner, head, frontend.text_embedding, frontend.tokenizer, prompt, seed))
        refined = " ".join(parts)
        if not any(c.isalnum() for c in refined):
            return CleanText(clean.text, (*clean.warnings, "the refine pass returned no text; spoke the original"))
        again = self._frontend.clean(refined, options.normalize, options.language)
        return CleanText(again.text, (*clean.warnings, *again.warnings))

    def _option_warnings(self, options: SynthesisOptions) -> list[str]:
        warnings = self._frontend.sample_warnings(options)
        if not options.refine and any(value is not None for value in (options.oral, options.laugh, options.pause)):
            warnings.append("oral, laugh and pause instruct the refine pass; without refine they were ignored")
        if options.top_k > MAX_CANDIDATES:
            warnings.append(f"top_k {options.top_k} is more than the graph offers; used {MAX_CANDIDATES}")
        if self._manifest.prompt is not None and options.speed != TRAINED_SPEED:
            warnings.append(f"this voice knows speed {TRAINED_SPEED} only; speed {options.speed} was ignored")
        if self._manifest.prompt is not None and isinstance(options.voice, VoiceSample):
            warnings.append("this checkpoint was not trained on voice samples; expect no likeness")
        return warnings
