"""The decode loop: sequences take rows, step together, and leave when they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from trt_tts.backend import F32, I32, Drawn, Flags, Runner
from trt_tts.errors import DeviceLostError, TrtTtsError
from trt_tts.model_config import MAX_CANDIDATES
from trt_tts.options import SMALLEST_TEMPERATURE, SMALLEST_TOP_P
from trt_tts.random_numbers import gumbel_noise


@dataclass(frozen=True, eq=False)
class Sampling:
    """How codes are drawn."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float

    @property
    def greedy(self) -> bool:
        """Whether the likeliest code is to be taken; the graph itself keeps three candidates at least."""
        return self.temperature <= SMALLEST_TEMPERATURE or self.top_k == 1 or self.top_p <= SMALLEST_TOP_P

    def row(self) -> list[float]:
        """The four numbers of the graph's `sampling` input."""
        top_k = self.top_k or MAX_CANDIDATES
        return [max(self.temperature, SMALLEST_TEMPERATURE), self.top_p, top_k, self.repetition_penalty]


@dataclass(frozen=True, eq=False)
class Prompt:
    """What a sequence begins with: S positions."""

    embedded: F32
    """float32 [S, E], read where `is_code` is false."""
    codes: I32
    """int32 [S, 4], read where `is_code` is true."""
    is_code: Flags
    """[S]."""

    @classmethod
    def of(cls, embedded: F32, codes: I32) -> Prompt:
        """Text positions, float32 [N, E], and after them those of a voice sample, int32 [M, 4]."""
        length, (rest, books) = len(embedded), codes.shape
        return cls(
            embedded=np.concatenate([embedded, np.zeros((rest, embedded.shape[1]), np.float32)]),
            codes=np.concatenate([np.zeros((length, books), np.int32), codes]),
            is_code=np.arange(length + rest) >= length,
        )


@dataclass(frozen=True, eq=False)
class Request:
    """One sequence to generate."""

    prompt: Callable[[], Prompt]
    """Called when the sequence starts: of a long text only few prompts are in memory at a time."""
    sampling: Sampling
    seed: int
    segment: int
    """Index of the segment within its text: it keys the noise together with the seed and the step."""
    max_steps: int
    min_steps: int


@dataclass(eq=False)
class Generation:
    """One request on its way through the loop."""

    request: Request
    on_end: Callable[[], None]
    """Called when it has ended or failed, while its hidden states are still there."""
    codes: list[I32] = field(default_factory=list)
    """int32 [4] of every step that was read."""
    started: int = 0
    """Steps that were started."""
    ended: bool = False
    truncated: bool = False
    """The step limit ended it."""
    failed: bool = False
    """The model's numbers were not finite from the last step on."""
    error: TrtTtsError | None = None
    """What `on_end` raised, or what ended the whole loop."""

    def end(self) -> None:
        """Mark it as ended, and let go of whoever waited for that."""
        self.ended, self.on_end = True, _nothing


@dataclass(frozen=True, eq=False)
class _Flight:
    """A call whose codes were not read yet, and the rows in it."""

    drawn: Drawn
    rows: tuple[Generation, ...]


def _nothing() -> None:
    """What is called at an end that nobody waits for."""


class DecodeLoop:
    """Generations take rows, step together, and leave when they end.

    A row that ends gives its place to the next request at once. No row depends on its mates: each has its own
    position, noise and penalty window. `runner.lag` calls are started before the codes of the first are read, so a
    row may take a step more than it needs; nobody looks at that.
    """

    def __init__(self, runner: Runner, rows: int) -> None:
        """Run at most `rows` generations at a time."""
        self.runner, self._rows = runner, rows
        self._waiting: deque[Generation] = deque()
        self._active: list[Generation] = []
        self._flying: deque[_Flight] = deque()

    @property
    def busy(self) -> bool:
        """Whether `advance` has anything to do."""
        return bool(self._waiting or self._active)

    def submit(self, request: Request, on_end: Callable[[], None] = _nothing) -> Generation:
        """Queue a request."""
        generation = Generation(request, on_end)
        self._waiting.append(generation)
        return generation

    def cancel(self, generation: Generation) -> None:
        """Take it out, wherever it is; `on_end` is not called."""
        if generation in self._waiting:
            self._waiting.remove(generation)
        elif generation in self._active:
            self._leave(generation)
        generation.end()

    def hidden(self, generation: Generation, first: int, steps: int) -> Any:
        """The states of `steps` of its steps from `first` on, as `Runner.hidden` gives them; it must not have left."""
        return self.runner.hidden(self._active.index(generation), first, steps)

    def advance(self) -> None:
        """Let waiting requests in, take one step, read codes.

        Raises:
            whatever the runner raises; all generations have ended with that `error` then.
        """
        try:
            if not self._active:
                self._flying.clear()
                self.runner.reset()
            while self._waiting and len(self._active) < self._rows:
                self._active.append(self._waiting.popleft())
                self._flying.append(self._prefill())
                self._land(self.runner.lag)
            if any(row.started == row.request.max_steps for row in self._active):
                self._land(0)
            elif self._active:
                for place, row in enumerate(self._active):
                    self._draw(row, place)
                self._flying.append(_Flight(self.runner.step(len(self._active)), tuple(self._active)))
                self._land(self.runner.lag)
        except BaseException as error:
            self._abandon(error)
            raise

    def _prefill(self) -> _Flight:
        """Start the last row."""
        place, row = len(self._active) - 1, self._active[-1]
        request = row.request
        self.runner.sampling[place] = request.sampling.row()
        self._draw(row, place)
        prompt = request.prompt()
        drawn = self.runner.prefill(place, place, prompt.embedded, prompt.codes, prompt.is_code)
        return _Flight(drawn, (row,))

    def _draw(self, row: Generation, place: int) -> None:
        """Set the row's noise, and whether it may end, for the step it is about to take."""
        request, step, runner = row.request, row.started, self.runner
        if request.sampling.greedy:
            runner.noise[place] = 0
        else:
            shape = runner.noise.shape[1:]
            noise = gumbel_noise(request.seed, request.segment, step, shape[0] * shape[1])
            runner.noise[place] = noise.reshape(shape)
        # An end at the first step would leave nothing to hear.
        runner.allow_end[place] = step >= max(request.min_steps, 1)
        row.started += 1

    def _land(self, most: int) -> None:
        """Read the oldest calls until `most` are left."""
        while len(self._flying) > most:
            flight = self._flying.popleft()
            # The last place first: rows that end together are not moved into each other's places.
            for row, drawn in reversed(list(zip(flight.rows, flight.drawn.codes(), strict=True))):
                if not row.ended:
                    self._settle(row, drawn)

    def _settle(self, row: Generation, drawn: I32) -> None:
        """Take the codes a row has drawn; when that ends it, free its place."""
        row.failed = bool((drawn < 0).any())
        if not row.failed and not (drawn == self.runner.sizes.end_code).any():
            row.codes.append(drawn)
            row.truncated = len(row.codes) == row.request.max_steps
            if not row.truncated:
                return
        row.ended = True
        try:
            row.on_end()
        except DeviceLostError:
            raise
        except TrtTtsError as error:  # of this one's sound: its mates go on
            row.error = error
        row.end()
        self._leave(row)

    def _leave(self, row: Generation) -> None:
        place, last = self._active.index(row), len(self._active) - 1
        if place != last:
            self.runner.move(last, place)
            self._active[place] = self._active[last]
        self._active.pop()

    def _abandon(self, error: BaseException) -> None:
        known = error if isinstance(error, TrtTtsError) else TrtTtsError(f"the engine was interrupted: {error!r}")
        for generation in (*self._active, *self._waiting):
            generation.end()
            generation.error = generation.error or known
        self._active.clear()
        self._waiting.clear()


@dataclass(frozen=True, eq=False)
class Generated:
    """What one request became."""

    codes: I32
    """int32 [T, 4]."""
    hidden: Any
    """The states that predicted them: float32 [T, E] on the CPU, meaningless afterwards on a GPU."""
    truncated: bool
    """The step limit ended it."""
    failed: bool
    """The model's numbers were not finite from step T on."""


def generate(runner: Runner, requests: Sequence[Request], rows: int) -> Iterator[tuple[int, Generated]]:
    """Generate all requests, `rows` at a time; yields (index, result) as each ends."""
    loop = DecodeLoop(runner, rows)
    results: deque[tuple[int, Generated]] = deque()
    generations: list[Generation] = []

    def collect(index: int) -> None:
        item = generations[index]
        codes = np.array(item.codes, np.int32).reshape(-1, runner.sizes.num_vq)
        hidden = loop.hidden(item, 0, len(codes))
        results.append((index, Generated(codes, hidden, item.truncated, item.failed)))

    for index, request in enumerate(requests):
        generations.append(loop.submit(request, partial(collect, index)))
    while loop.busy:
        loop.advance()
        while results:
            yield results.popleft()
