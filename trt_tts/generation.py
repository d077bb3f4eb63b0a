"""The decode loop: sequences take rows, step together, and leave when they end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.cpu.gpt import GptRunner
from trt_tts.model_config import MAX_CANDIDATES
from trt_tts.options import SMALLEST_TEMPERATURE
from trt_tts.random_numbers import gumbel_noise

F32: TypeAlias = npt.NDArray[np.float32]
I32: TypeAlias = npt.NDArray[np.int32]


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
    is_code: npt.NDArray[np.bool_]
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
    hidden: F32
    """float32 [T, E]: the state that predicted each step's codes."""
    truncated: bool
    """The step limit ended it."""
    failed: bool
    """The model's numbers were not finite from step T on."""


@dataclass(eq=False)
class _Row:
    index: int
    request: Request
    codes: list[I32] = field(default_factory=list)
    hidden: list[F32] = field(default_factory=list)

    def result(self, truncated: bool = False, failed: bool = False) -> Generated:
        width, wide = self.request.codes.shape[1], self.request.embedded.shape[1]
        codes = np.array(self.codes, np.int32).reshape(-1, width)
        return Generated(codes, np.array(self.hidden, np.float32).reshape(-1, wide), truncated, failed)


def generate(runner: GptRunner, requests: Sequence[Request], rows: int) -> Iterator[tuple[int, Generated]]:
    """Generate all requests, `rows` at a time; yields (index, result) as each ends.

    A row that ends gives its place to the next request at once. No row depends on its mates: each has its own
    position, noise and penalty window.
    """
    runner.reset()
    waiting = list(enumerate(requests))[::-1]
    active: list[_Row] = []
    while waiting or active:
        while waiting and len(active) < rows:
            row = _Row(*waiting.pop())
            _prefill(runner, row, len(active))
            active.append(row)
            yield from _settle(runner, active, len(active) - 1)
        if active:
            for place, row in enumerate(active):
                _draw(runner, row, place)
            runner.step(len(active))
            for place in reversed(range(len(active))):
                yield from _settle(runner, active, place)


def _prefill(runner: GptRunner, row: _Row, place: int) -> None:
    request = row.request
    runner.sampling[place] = request.sampling.row()
    _draw(runner, row, place)
    runner.prefill(place, place, request.embedded, request.codes, request.is_code)


def _draw(runner: GptRunner, row: _Row, place: int) -> None:
    """Set the row's noise, and whether it may end, for the step it is about to take."""
    request, step = row.request, len(row.codes)
    if request.sampling.temperature <= SMALLEST_TEMPERATURE:
        runner.noise[place] = 0
    else:
        shape = runner.noise.shape[1:]
        runner.noise[place] = gumbel_noise(request.seed, request.segment, step, shape[0] * shape[1]).reshape(shape)
    # An end at the first step would leave nothing to hear.
    runner.allow_end[place] = step >= max(request.min_steps, 1)


def _settle(runner: GptRunner, active: list[_Row], place: int) -> Iterator[tuple[int, Generated]]:
    """Take the codes the row at `place` has drawn; when that ends it, free its place and yield its result."""
    row, drawn = active[place], runner.codes[place]
    failed, ended = bool((drawn < 0).any()), bool((drawn == runner.sizes.end_code).any())
    if not (failed or ended):
        row.codes.append(drawn.copy())
        row.hidden.append(runner.hidden[place].copy())
        if len(row.codes) < row.request.max_steps:
            return
    last = len(active) - 1
    if place != last:
        runner.move(last, place)
        active[place] = active[last]
    active.pop()
    yield row.index, row.result(truncated=not (failed or ended), failed=failed)
