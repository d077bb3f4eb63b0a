"""One decode loop for all calls of an engine: whoever waits for sound advances it for everybody."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from trt_tts.audio import Audio
from trt_tts.backend import Backend
from trt_tts.clip import Clip
from trt_tts.errors import TrtTtsError
from trt_tts.fair_lock import FairLock
from trt_tts.generation import DecodeLoop
from trt_tts.options import SynthesisOptions
from trt_tts.progress import Progress
from trt_tts.speech import Job, Speech


class Speaker:
    """Turns jobs into sound. Threads take turns; a turn ends early when another thread waits for one."""

    def __init__(self, backend: Backend, rows: int) -> None:
        self._backend = backend
        self._loop = DecodeLoop(backend.runner, rows)
        self._lock = FairLock()
        self._closed = False

    def speak(self, jobs: Sequence[Job], options: SynthesisOptions, progress: Progress) -> list[Speech]:
        """All jobs at once, to the end; errors are in the speeches.

        Raises:
            TrtTtsError: the engine is closed, or its loop broke.
        """
        with self._turn():
            speeches = [self._submit(job, options) for job in jobs]
        try:
            self._finish(speeches, progress)
        except BaseException:
            self._cancel(speeches)
            raise
        return speeches

    def stream(self, job: Job, options: SynthesisOptions) -> Generator[Audio, None, None]:
        """The sound of a job as it comes.

        Raises:
            as `Speech.audio`.
        """
        with self._turn():
            speech = self._submit(job, options)
        try:
            for index in range(len(speech.clips)):
                ended = False
                while not ended:
                    chunk, ended = self._next_chunk(speech, index)
                    yield chunk
        finally:
            self._cancel([speech])

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The runner is free inside: what was under way has ended, and nothing else begins."""
        with self._turn():
            while self._loop.busy:
                self._loop.advance()
            yield

    def require_open(self) -> None:
        """Raises TrtTtsError once the engine is closed."""
        if self._closed:
            raise TrtTtsError("this engine is closed; load it again with Engine.load")

    def close(self) -> None:
        """Close the backend; closing again does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._backend.close()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            self.require_open()
            with self._backend.activated():
                yield

    def _submit(self, job: Job, options: SynthesisOptions) -> Speech:
        clips = [Clip(self._backend, self._loop, request, options.use_decoder) for request in job.requests]
        return Speech(job, clips)

    def _finish(self, speeches: list[Speech], progress: Progress) -> None:
        total, before = sum(len(speech.clips) for speech in speeches), 0
        while before < total:
            with self._turn():
                while (ended := sum(speech.ended for speech in speeches)) == before:
                    self._loop.advance()
                    if self._lock.wanted:
                        break
            # Outside of the turn: it may be the application's own code.
            for done in range(before + 1, ended + 1):
                progress(f"speaking {done}/{total}")
            before = ended

    def _next_chunk(self, speech: Speech, index: int) -> tuple[Audio, bool]:
        """The next chunk of a segment, and whether it is the last."""
        clip = speech.clips[index]
        while True:
            with self._turn():
                clip.decode()
                while not (clip.waiting or clip.ended) and not self._lock.wanted:
                    self._loop.advance()
                    clip.decode()
                if clip.waiting or clip.ended:
                    return speech.chunk(index), clip.ended

    def _cancel(self, speeches: Sequence[Speech]) -> None:
        with self._lock:
            if self._closed or all(clip.ended for speech in speeches for clip in speech.clips):
                return
            with self._backend.activated():
                for speech in speeches:
                    for clip in speech.clips:
                        clip.cancel()
