"""One decode loop for all calls of an engine: whoever waits for sound advances it for everybody."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from trt_tts.audio import Audio, Samples
from trt_tts.backend import Backend
from trt_tts.clip import Clip, decode_window
from trt_tts.errors import GenerationError, TrtTtsError
from trt_tts.fair_lock import FairLock
from trt_tts.generation import DecodeLoop, Request
from trt_tts.manifest import Limits
from trt_tts.model_config import ModelConfig
from trt_tts.options import SynthesisOptions
from trt_tts.progress import Progress
from trt_tts.selftest import snr_db
from trt_tts.speech import Job, Speech
from trt_tts.windows import Windows, receptive_steps


class Speaker:
    """Turns jobs into sound. Threads take turns; a turn ends early when another thread waits for one."""

    def __init__(self, backend: Backend, config: ModelConfig, limits: Limits) -> None:
        self._backend, self._config, self._limits = backend, config, limits
        self._loop = DecodeLoop(backend.runner, limits.max_batch)
        self._lock = FairLock()
        self._cancelled: deque[Speech] = deque()
        self._closed = False

    def speak(self, jobs: Sequence[Job], options: SynthesisOptions, progress: Progress) -> list[Speech]:
        """All jobs at once, to the end; errors are in the speeches.

        Raises:
            TrtTtsError: the engine is closed, or its loop broke.
        """
        speeches = [Speech(job) for job in jobs]
        try:
            self._finish(speeches, options, progress)
        except BaseException:
            self._cancel(speeches)
            raise
        return speeches

    def stream(self, job: Job, options: SynthesisOptions) -> Generator[Audio, None, None]:
        """The sound of a job as it comes. Segments are begun as others end, and forgotten once they were given out:
        the memory of a long text is that of a few segments, however slowly its sound is taken.

        Raises:
            as `Speech.audio`.
        """
        speech = Speech(job)
        try:
            for index in range(len(job.requests)):
                ended = False
                while not ended:
                    chunk, ended = self._next_chunk(speech, options, index)
                    if ended:
                        speech.release(index)
                    yield chunk
        finally:
            self._cancel([speech])

    def lookahead_snr(self, request: Request, lookahead: int, use_decoder: bool) -> float:
        """dB by which the exact sound of a request exceeds its difference from the sound with a lookahead.

        Raises:
            TrtTtsError: the engine is closed, or its loop broke.
            GenerationError: the model's numbers were not finite.
        """
        sounds: list[Samples] = []

        def decode() -> None:
            for ahead in (None, lookahead):
                windows = self.windows(use_decoder, ahead).take(len(generation.codes), ended=True)
                parts = [decode_window(self._backend, self._loop, generation, item, use_decoder) for item in windows]
                sounds.append(np.concatenate([np.zeros(0, np.float32), *parts]))

        with self.alone():
            generation = self._loop.submit(request, decode)
            while not generation.ended:
                self._loop.advance()
        if generation.error is not None:
            raise generation.error
        if generation.failed:
            raise GenerationError("the model's numbers were not finite. Build the engine set anew")
        exact, sooner = sounds
        return math.inf if np.array_equal(exact, sooner) else snr_db(exact, sooner)

    def windows(self, use_decoder: bool, lookahead: int | None) -> Windows:
        """Windows for a clip that is decoded so."""
        config = self._config
        margin = receptive_steps(config.decoder if use_decoder else config.dvae.decoder, config.vocos)
        return Windows(margin, self._limits.codec_steps, lookahead)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """The runner is free inside: what was under way has ended, and nothing else begins."""
        with self._turn():
            while self._loop.busy:
                self._advance()
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
                self._drop_cancelled()
                yield

    def _submit(self, speech: Speech, options: SynthesisOptions, first: int) -> None:
        """Submit the segments that may be under way while `first` is the first that is not settled.

        With twice as many as there are rows, a row is seldom idle because a long segment holds the others up. Until
        the first segment has its first sound it is alone: steps of one row are the fastest.
        """
        requests = speech.job.requests
        alone = first == 0 and not (speech.submitted and speech.clips[0].sounding)
        most = min(1 if alone else first + 2 * self._limits.max_batch, len(requests))
        if speech.submitted < most and speech.failed:
            return  # nobody will hear more of it
        for index in range(speech.submitted, most):
            windows = self.windows(options.use_decoder, options.lookahead)
            speech.clips[index] = Clip(self._backend, self._loop, requests[index], windows, options.use_decoder)
            speech.submitted += 1

    def _advance(self) -> None:
        self._drop_cancelled()
        self._loop.advance()

    def _finish(self, speeches: list[Speech], options: SynthesisOptions, progress: Progress) -> None:
        """Segments are begun when a stream would begin them: rows have the same mates, so they are rounded alike."""
        total, before, done = sum(len(speech.job.requests) for speech in speeches), 0, False
        while not done:
            # Judged in the turn: another thread's may be about to decode what has ended.
            with self._turn():
                while not (done := all(speech.done for speech in speeches)):
                    for speech in speeches:
                        self._submit(speech, options, speech.settled)
                    self._advance()
                    if self._lock.wanted or sum(speech.ended for speech in speeches) > before:
                        break
                ended = sum(speech.ended for speech in speeches)
            # Outside of the turn: it may be the application's own code.
            for count in range(before + 1, ended + 1):
                progress(f"speaking {count}/{total}")
            before = ended

    def _next_chunk(self, speech: Speech, options: SynthesisOptions, index: int) -> tuple[Audio, bool]:
        """The next chunk of a segment, and whether it is the last."""
        while True:
            with self._turn():
                self._submit(speech, options, index)
                clip = speech.clips[index]
                clip.decode()
                while not (clip.waiting or clip.ended):
                    # At least once in a turn, or threads that only hand it to each other would get nowhere.
                    self._submit(speech, options, index)
                    self._advance()
                    clip.decode()
                    if self._lock.wanted:
                        break
                if clip.waiting or clip.ended:
                    return speech.chunk(index), clip.ended

    def _cancel(self, speeches: Sequence[Speech]) -> None:
        """Take speeches out, now or in the next turn. Never waits: a stream may be dropped, and collected, anywhere,
        also by a thread that has the turn."""
        running = [speech for speech in speeches if not speech.all_ended]
        self._cancelled.extend(running)
        if running and self._lock.take_if_free():
            try:
                if not self._closed:
                    with self._backend.activated():
                        self._drop_cancelled()
            finally:
                self._lock.release()

    def _drop_cancelled(self) -> None:
        while self._cancelled:
            for clip in self._cancelled.popleft().clips.values():
                clip.cancel()
