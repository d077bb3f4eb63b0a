"""Measures a loaded engine: decode steps with the memory they read, and whole calls."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from trt_tts.backend import Runner
from trt_tts.engine import Engine
from trt_tts.errors import UsageError
from trt_tts.generation import Sampling
from trt_tts.gpu.backend import GpuBackend
from trt_tts.gpu.memory import cache_item_size
from trt_tts.manifest import Manifest

PROMPT = 32
"""Fewest positions before the measured steps."""
SAMPLING = Sampling(0.3, 0.7, 20, 1.05)
_COUNTED_STEPS = 16


@dataclass(frozen=True)
class StepTimes:
    """Decode steps of `rows` sequences around `context` attended positions."""

    rows: int
    context: int
    milliseconds: float
    """Of a step, the median of the rounds."""
    bytes: int
    """Read at least once per step: weights and the attended keys and values."""
    driver_calls: float | None
    """Of the CUDA driver, per step; None on the CPU."""

    @property
    def steps_per_second(self) -> float:
        """Of each row; real time is 46.9."""
        return 1000 / self.milliseconds

    @property
    def gbs(self) -> float:
        """Read per time, 1e9 bytes/s."""
        return self.bytes / self.milliseconds / 1e6


@dataclass(frozen=True)
class CallTimes:
    """Calls that speak one text."""

    seconds_of_speech: float
    seconds: float
    """Until all of the sound is there, the median of the rounds."""
    first_seconds: float
    """Until a stream gives its first sound."""

    @property
    def rtf(self) -> float:
        """Seconds of computing per second of speech."""
        return self.seconds / self.seconds_of_speech


def decode_times(engine: Engine, rows: int, context: int, steps: int, rounds: int) -> StepTimes:
    """Time decode steps with nothing else going on.

    Raises:
        UsageError: `context` and `steps` do not fit the set.
    """
    backend, manifest = engine._backend, engine._manifest
    length = max(PROMPT, context - steps // 2)
    if length + steps + _COUNTED_STEPS + 1 > manifest.limits.capacity:
        raise UsageError(
            f"{steps} steps around {context} positions do not fit this set's {manifest.limits.capacity} positions; "
            f"take fewer"
        )
    times, calls = [], None
    with backend.activated():
        for _ in range(rounds):
            _fill(backend.runner, rows, length)
            started = time.perf_counter()
            run_steps(backend.runner, rows, steps)
            times.append(time.perf_counter() - started)
        if isinstance(backend, GpuBackend):
            with _counting(backend) as counter:
                run_steps(backend.runner, rows, _COUNTED_STEPS)
            calls = counter.count / _COUNTED_STEPS
    return StepTimes(rows, context, 1000 * statistics.median(times) / steps, step_bytes(manifest, rows, context), calls)


def run_steps(runner: Runner, rows: int, steps: int) -> None:
    """Steps as the decode loop takes them: the codes of one are read while the next runs, where the runner allows."""
    previous = runner.step(rows)
    for _ in range(steps - 1):
        current = runner.step(rows)
        previous.codes()
        previous = current
    previous.codes()


def call_times(engine: Engine, text: str, rounds: int) -> CallTimes:
    """Time `synthesize` and the first chunk of `stream`. Errors as there."""
    times, firsts, duration = [], [], 0.0
    for _ in range(rounds):
        started = time.perf_counter()
        duration = engine.synthesize(text, seed=0).duration
        times.append(time.perf_counter() - started)
        with closing(engine.stream(text, seed=0)) as stream:
            started = time.perf_counter()
            next(stream)
            firsts.append(time.perf_counter() - started)
    return CallTimes(duration, statistics.median(times), statistics.median(firsts))


def step_bytes(manifest: Manifest, rows: int, context: int) -> int:
    """Bytes of `gpt` weights and caches that every step reads; of the code embeddings it reads four rows only."""
    gpt, graph = manifest.config.gpt, manifest.graphs["gpt"]
    number = cache_item_size(graph)
    embeddings = number * gpt.num_vq * gpt.num_audio_tokens * gpt.hidden_size
    per_position = 2 * gpt.num_hidden_layers * gpt.hidden_size * number
    return sum(graph.weight_bytes.values()) - embeddings + rows * context * per_position


def _fill(runner: Runner, rows: int, length: int) -> None:
    """Start `rows` sequences with a prompt of noise, and take a first step."""
    runner.reset()
    runner.sampling[:] = SAMPLING.row()
    random, sizes = np.random.default_rng(0), runner.sizes
    for row in range(rows):
        embedded = random.standard_normal((length, sizes.hidden_size), dtype=np.float32) * 0.05
        codes = np.zeros((length, sizes.num_vq), np.int32)
        runner.prefill(row, row, embedded, codes, np.zeros(length, np.bool_)).codes()
    runner.step(rows).codes()


class _Counter:
    """Stands for a driver and counts what is asked of it."""

    def __init__(self, driver: Any) -> None:
        self._driver, self.count = driver, 0

    def __getattr__(self, name: str) -> Any:
        self.count += 1
        return getattr(self._driver, name)


@contextmanager
def _counting(backend: GpuBackend) -> Iterator[_Counter]:
    device = backend.device
    driver, counter = device.driver, _Counter(device.driver)
    device.driver = counter
    try:
        yield counter
    finally:
        device.driver = driver
