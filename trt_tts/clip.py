"""The sound of one generation, decoded window by window as its steps come."""

from __future__ import annotations

from collections import deque

import numpy as np

from trt_tts.audio import Samples
from trt_tts.backend import Backend
from trt_tts.generation import DecodeLoop, Generation, Request
from trt_tts.windows import Window, Windows


def decode_window(
    backend: Backend, loop: DecodeLoop, generation: Generation, window: Window, use_decoder: bool
) -> Samples:
    """What is kept of a window's sound, float32 [window.keep], made from hidden states with `use_decoder`, else from
    codes; the generation must not have left the loop."""
    if use_decoder:
        return backend.decode_hidden(loop.hidden(generation, window.first, window.steps), window)
    codes = np.array(generation.codes[window.first : window.first + window.steps], np.int32)
    return backend.decode_codes(codes, window)


class Clip:
    """Submits a request to the loop. Used by one thread at a time, as the loop is."""

    def __init__(
        self, backend: Backend, loop: DecodeLoop, request: Request, windows: Windows, use_decoder: bool
    ) -> None:
        """With `use_decoder`, sound is made from hidden states, else from codes; `windows` must suit that."""
        self._backend, self._loop, self._use_decoder = backend, loop, use_decoder
        self._windows = windows
        self._parts: deque[Samples] = deque()
        self.taken = 0
        """Samples that were given out."""
        self.generation = loop.submit(request, self.decode)

    @property
    def waiting(self) -> bool:
        """Whether there is sound to take."""
        return bool(self._parts)

    @property
    def sounding(self) -> bool:
        """Whether it has the steps for its first sound."""
        return self.ended or len(self.generation.codes) >= self._windows.first_steps

    @property
    def ended(self) -> bool:
        """Whether no more sound comes than is there."""
        return self.generation.ended

    def decode(self) -> None:
        """Decode what can be decoded by now; of numbers that are not finite, or of a loop that broke, nothing."""
        generation = self.generation
        if generation.failed or generation.error is not None:
            return
        for window in self._windows.take(len(generation.codes), generation.ended):
            self._parts.append(decode_window(self._backend, self._loop, generation, window, self._use_decoder))

    def take(self) -> list[Samples]:
        """The sound that was decoded since the last call, float32 [n] each."""
        parts = list(self._parts)
        self._parts.clear()
        self.taken += sum(map(len, parts))
        return parts

    def cancel(self) -> None:
        """Give its row to somebody else."""
        if not self.generation.ended:
            self._loop.cancel(self.generation)
