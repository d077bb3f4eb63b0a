"""The engine an application loads."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from trt_tts.audio import Audio, Samples
from trt_tts.cpu.gpt import GptRunner
from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.errors import EngineSetError, GenerationError, TrtTtsError, UsageError
from trt_tts.frontend import Frontend
from trt_tts.generation import Generated, generate
from trt_tts.manifest import Limits, Manifest
from trt_tts.model_config import MAX_CANDIDATES
from trt_tts.options import SynthesisOptions, require_whole
from trt_tts.progress import Progress
from trt_tts.refine import refine_text
from trt_tts.speech import Job, Speech
from trt_tts.target import require_runs_on, this_machine
from trt_tts.text.clean import CleanText
from trt_tts.text.prompt import TRAINED_SPEED, refine_prompt
from trt_tts.voice import Voice

logger = logging.getLogger("trt_tts")
BACKENDS = ("auto", "cpu")
MOST_DEVICES = 255
MOST_THREADS = 256


@dataclass(frozen=True)
class MemoryInfo:
    """Bytes the engine holds."""

    weights: int
    """Constants of the graphs that are loaded all the time."""
    kv_cache: int
    """Reserved for the key-value cache; the CPU backend touches only what a sequence uses."""
    text_embedding: int
    """The text table, read from disk as needed."""


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
    memory: MemoryInfo


class Engine:
    """A loaded engine set. Thread-safe: calls from several threads take turns and do not influence each other."""

    def __init__(self, path: Path, manifest: Manifest, threads: int) -> None:
        """Use `Engine.load`."""
        self._path, self._manifest, self._threads = path, manifest, threads
        self._lock = threading.Lock()
        self._closed = False
        limits, gpt = manifest.limits, manifest.config.gpt
        self._frontend = Frontend(path, gpt, limits.capacity, manifest.prompt, manifest.alphabet)
        self._sessions = {
            name: open_session(path / f"{name}.onnx", threads)
            for name, graph in manifest.graphs.items()
            if graph.resident
        }
        self._gpt = GptRunner(self._sessions["gpt"], gpt, limits.max_batch, limits.capacity, limits.prefill_chunk)
        self.info = EngineInfo(
            path=path,
            backend=manifest.backend,
            reason="the set was built for the CPU",
            precision=manifest.precision,
            card=manifest.target.card,
            threads=threads,
            checkpoint=manifest.checkpoint.name,
            limits=limits,
            memory=MemoryInfo(
                weights=sum(sum(graph.weight_bytes.values()) for graph in manifest.graphs.values() if graph.resident),
                kv_cache=self._gpt.cache.bytes,
                text_embedding=int(self._frontend.text_embedding.nbytes),
            ),
        )
        """Backend and why, precision, memory, limits; an `EngineInfo`."""

    @classmethod
    def load(
        cls, path: str | PathLike[str], backend: str = "auto", device: int = 0, threads: int | None = None
    ) -> Self:
        """Load an engine set, after checking every file against its recorded hash.

        Args:
            path: the set's folder.
            backend: "auto" takes the one the set was built for.
            device: index of the GPU; the CPU backend has none and ignores it.
            threads: CPU threads; None takes what the affinity mask and the container's quota allow.

        Raises:
            EngineSetError: the folder is incomplete, damaged, or built for something else.
            UsageError: an argument is out of range.
            TrtTtsError: there is not enough memory.
        """
        folder = Path(path).absolute()
        if backend not in BACKENDS:
            raise UsageError(f"backend is {backend!r}; allowed: {', '.join(BACKENDS)}")
        require_whole("device", device, 0, MOST_DEVICES)
        if threads is not None:
            require_whole("threads", threads, 1, MOST_THREADS)
        manifest = Manifest.load(folder)
        if manifest.backend not in (*BACKENDS, "tensorrt"):
            raise EngineSetError(
                f"{folder} was built for the backend {manifest.backend!r}; this version runs: {', '.join(BACKENDS[1:])}"
            )
        manifest.verify(folder)
        if manifest.backend == "tensorrt":
            require_runs_on(this_machine(device), folder, manifest)
            raise EngineSetError(
                f"{folder} fits this machine, but this version only builds TensorRT sets and cannot speak with them "
                f"yet; trt-tts verify {folder} tests it. Build one for the CPU: trt-tts build --backend cpu"
            )
        try:
            engine = cls(folder, manifest, threads or usable_threads())
        except MemoryError as error:
            raise TrtTtsError(
                f"not enough memory to load {folder}. Close other programs, or build a set with a smaller --max-batch "
                f"or --max-seconds, or with --precision int8"
            ) from error
        logger.info("%s: %s backend, %s", folder, engine.info.backend, engine.info.reason)
        return engine

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
        if options is not None and not isinstance(options, SynthesisOptions):
            raise UsageError(f"options is a {type(options).__name__}; expected SynthesisOptions, or options by name")
        options = (options or SynthesisOptions()).override(**overrides)
        with self._lock:
            self._require_open()
            speeches = [Speech(self._prepare(text, options)) for text in texts]
            self._generate(speeches, options, progress)
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

    def warm_up(self) -> Audio:
        """Run every resident graph once, so that the first real call is as fast as the next; returns what it spoke."""
        return self.synthesize("a", voice=self._frontend.any_voice(), max_steps=8, min_steps=8, seed=0)

    def random_voice(self, seed: int) -> Voice:
        """A voice drawn from the checkpoint's speaker statistics, a fixed function of `seed`.

        Raises:
            VoiceError: the checkpoint came without statistics, or the seed is out of range.
        """
        return self._frontend.book.random(seed)

    def close(self) -> None:
        """Release the graphs and buffers; later calls raise. Closing again does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._sessions.clear()
            del self._gpt, self._frontend

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._closed:
            raise TrtTtsError("this engine is closed; load it again with Engine.load")

    def _prepare(self, text: str, options: SynthesisOptions) -> Job:
        seed = secrets.randbits(32) if options.seed is None else options.seed
        paragraphs = self._frontend.paragraphs(text, options.normalize)
        if options.refine:
            paragraphs = [self._refine(clean, options, seed) for clean in paragraphs]
        segments = self._frontend.segments([clean.text for clean in paragraphs])
        requests = tuple(
            self._frontend.request(segment.text, options, seed, index) for index, segment in enumerate(segments)
        )
        warnings = dict.fromkeys(item for clean in paragraphs for item in clean.warnings)
        whole = "\n\n".join(clean.text for clean in paragraphs)
        return Job(whole, (*warnings, *self._option_warnings(options)), seed, segments, requests)

    def _generate(self, speeches: list[Speech], options: SynthesisOptions, progress: Progress) -> None:
        places = [(speech, i) for speech in speeches for i in range(len(speech.job.segments))]
        requests = [speech.job.requests[i] for speech, i in places]
        for done, (place, result) in enumerate(generate(self._gpt, requests, self._manifest.limits.max_batch), 1):
            speech, index = places[place]
            # At once, so that only sound is kept of a long text.
            speech.add(index, result, np.zeros(0, np.float32) if result.failed else self._decode(result, options))
            progress(f"speaking {done}/{len(places)}")

    def _refine(self, clean: CleanText, options: SynthesisOptions, seed: int) -> CleanText:
        """The text as the model rewrites it, segment by segment."""
        head, frontend = self._session_on_demand("text_head"), self._frontend
        parts = []
        for segment in frontend.segments([clean.text]):
            prompt = refine_prompt(segment.text, options.oral, options.laugh, options.pause)
            parts.append(refine_text(self._gpt, head, frontend.text_embedding, frontend.tokenizer, prompt, seed))
        refined = " ".join(parts)
        if not any(c.isalnum() for c in refined):
            return CleanText(clean.text, (*clean.warnings, "the refine pass returned no text; spoke the original"))
        again = self._frontend.clean(refined, options.normalize)
        return CleanText(again.text, (*clean.warnings, *again.warnings))

    def _option_warnings(self, options: SynthesisOptions) -> list[str]:
        warnings = []
        if not options.refine and any(value is not None for value in (options.oral, options.laugh, options.pause)):
            warnings.append("oral, laugh and pause instruct the refine pass; without refine they were ignored")
        if options.top_k > MAX_CANDIDATES:
            warnings.append(f"top_k {options.top_k} is more than the graph offers; used {MAX_CANDIDATES}")
        if self._manifest.prompt is not None and options.speed != TRAINED_SPEED:
            warnings.append(f"this voice knows speed {TRAINED_SPEED} only; speed {options.speed} was ignored")
        return warnings

    def _decode(self, result: Generated, options: SynthesisOptions) -> Samples:
        """float32 [256 * (2T - 1)] from T steps."""
        if options.use_decoder:
            feed = {"hidden": result.hidden[None]}
            session = self._sessions["codec"]
        else:
            feed = {"codes": np.ascontiguousarray(result.codes.T[None])}
            session = self._session_on_demand("codec_vq")
        samples: Samples = session.run(["wav"], feed)[0][0]
        return samples

    def _session_on_demand(self, name: str) -> Any:
        if name not in self._sessions:
            self._sessions[name] = open_session(self._path / f"{name}.onnx", self._threads)
        return self._sessions[name]
