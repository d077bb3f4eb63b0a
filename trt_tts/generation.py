"""The decode loop: sequences take rows, step together, and leave when they end."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trt_tts.backend import F32, I32, Drawn, Flags, Runner
from trt_tts.model_config import MAX_CANDIDATES
from trt_tts.options import SMALLEST_TEMPERATURE
from trt_tts.random_numbers import gumbel_noise


@dataclass(frozen=True, eq=False)
class Sampling:
    """How codes are drawn."""

    temperature: float
    top_p: float
    top_k: int
    repetition_penalty: float

    def row(self) -> list[float]:
        """The four numbers of the graph's `sampling` input."""
        top_k = self.top_k or MAX_CANDIDATES
        return [max(self.temperature, SMALLEST_TEMPERATURE), self.top_p, top_k, self.repetition_penalty]


@dataclass(frozen=True, eq=False)
class Request:
    """One sequence to generate."""

    embedded: F32
    """Prompt rows, float32 [S, E]."""
    codes: I32
    """Prompt codes, int32 [S, 4], read where `is_code` is true."""
    is_code: Flags
    sampling: Sampling
    seed: int
    segment: int
    """Index of the segment within its text: it keys the noise together with the seed and the step."""
    max_steps: int
    min_steps: int


@dataclass(frozen=True, eq=False)
class Generated:
    """What one request became."""

    codes: I32
    """int32 [T, 4]."""
    hidden: Any
    """The states that predicted them: float32 [T, E] on the CPU. On a GPU a place in its memory, valid until the next
    result is asked for."""
    truncated: bool
    """The step limit ended it."""
    failed: bool
    """The model's numbers were not finite from step T on."""


@dataclass(eq=False)
class _Row:
    index: int
    request: Request
    drawn: int = 0
    """Steps that were started."""
    codes: list[I32] = field(default_factory=list)
    """Of the steps that were read."""
    ended: bool = False


@dataclass(frozen=True, eq=False)
class _Flight:
    """A call whose codes were not read yet, and the rows in it."""

    drawn: Drawn
    rows: tuple[_Row, ...]


def generate(runner: Runner, requests: Sequence[Request], rows: int) -> Iterator[tuple[int, Generated]]:
    """Generate all requests, `rows` at a time; yields (index, result) as each ends.

    A row that ends gives its place to the next request at once. No row depends on its mates: each has its own
    position, noise and penalty window. `runner.lag` calls are started before the codes of the first are read, so a
    row may take a step more than it needs; nobody looks at that.
    """
    runner.reset()
    waiting = deque(enumerate(requests))
    active: list[_Row] = []
    flying: deque[_Flight] = deque()
    while waiting or active:
        while waiting and len(active) < rows:
            active.append(_Row(*waiting.popleft()))
            flying.append(_prefill(runner, active))
            yield from _land(runner, active, flying, runner.lag)
        if any(row.drawn == row.request.max_steps for row in active):
            yield from _land(runner, active, flying, 0)
        elif active:
            for place, row in enumerate(active):
                _draw(runner, row, place)
            flying.append(_Flight(runner.step(len(active)), tuple(active)))
            yield from _land(runner, active, flying, runner.lag)


def _prefill(runner: Runner, active: list[_Row]) -> _Flight:
    """Start the last row."""
    place, row = len(active) - 1, active[-1]
    request = row.request
    runner.sampling[place] = request.sampling.row()
    _draw(runner, row, place)
    return _Flight(runner.prefill(place, place, request.embedded, request.codes, request.is_code), (row,))


def _draw(runner: Runner, row: _Row, place: int) -> None:
    """Set the row's noise, and whether it may end, for the step it is about to take."""
    request, step = row.request, row.drawn
    if request.sampling.temperature <= SMALLEST_TEMPERATURE:
        runner.noise[place] = 0
    else:
        shape = runner.noise.shape[1:]
        runner.noise[place] = gumbel_noise(request.seed, request.segment, step, shape[0] * shape[1]).reshape(shape)
    # An end at the first step would leave nothing to hear.
    runner.allow_end[place] = step >= max(request.min_steps, 1)
    row.drawn += 1


def _land(runner: Runner, active: list[_Row], flying: deque[_Flight], most: int) -> Iterator[tuple[int, Generated]]:
    """Read the oldest calls until `most` are left; yield the rows that end."""
    while len(flying) > most:
        flight = flying.popleft()
        # The last place first: rows that end together are not moved into each other's places.
        for row, drawn in reversed(list(zip(flight.rows, flight.drawn.codes(), strict=True))):
            if not row.ended:
                yield from _settle(runner, active, row, drawn)


def _settle(runner: Runner, active: list[_Row], row: _Row, drawn: I32) -> Iterator[tuple[int, Generated]]:
    """Take the codes a row has drawn; when that ends it, yield its result and free its place."""
    failed, ended = bool((drawn < 0).any()), bool((drawn == runner.sizes.end_code).any())
    if not (failed or ended):
        row.codes.append(drawn)
        if len(row.codes) < row.request.max_steps:
            return
    row.ended = True
    place, last = active.index(row), len(active) - 1
    codes = np.array(row.codes, np.int32).reshape(-1, runner.sizes.num_vq)
    hidden = runner.hidden(place, len(codes))
    yield row.index, Generated(codes, hidden, truncated=not (failed or ended), failed=failed)
    if place != last:
        runner.move(last, place)
        active[place] = active[last]
    active.pop()
