"""Time to the first sound, and what the codec costs when sound is given out in chunks.

    python benchmarks/streaming.py --engine engines/cpu-int8          sets you have, for the CPU
    python benchmarks/streaming.py --published-sizes                   random weights of the published ChatTTS sizes
    python benchmarks/streaming.py --engine engines/cpu-int8 --memory chapter.txt    memory while a text is streamed

Speech of 5, 20 and 60 s is spoken in segments of 5 s each. The codec is timed on one clip of that length: decoded in
this project's windows, at once, and as a program does that decodes all of the clip again for each chunk, for the same
chunks and for chunks of 24 steps. Figures are medians of `--rounds`; decoding again is timed once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
from cpu_decode import published_sets
from rich.console import Console
from rich.table import Table

from trt_tts import Engine
from trt_tts.model_config import CODE_HOP, HOP_LENGTH, STEPS_PER_SECOND
from trt_tts.windows import Window

SECONDS = (5, 20, 60)
LOOKAHEAD = 12
SEGMENT_STEPS = round(5 * STEPS_PER_SECOND)
SENTENCE = "the engine is ready. "
CHUNK_STEPS = 24
MEMORY_EVERY = 30.0
"""Seconds of speech between two lines."""


@dataclass(frozen=True)
class Sounds:
    """Seconds until there is sound, and steps of the first segment before it."""

    seconds_of_speech: float
    exact_s: float
    exact_steps: int
    lookahead_s: float
    lookahead_steps: int
    whole_s: float
    """Until `synthesize` returns."""


@dataclass(frozen=True)
class CodecTimes:
    """Seconds for all of one clip."""

    seconds_of_speech: float
    windows_s: float
    once_s: float
    again_s: float
    """The whole clip anew for each of our chunks."""
    again_often_s: float
    """The whole clip anew every 24 steps."""
    chunks: int


def first_sounds(engine: Engine, seconds: int, rounds: int) -> Sounds:
    """Time to the first sound of a text of so many seconds."""
    text = SENTENCE * max(1, round(seconds * STEPS_PER_SECOND / SEGMENT_STEPS))
    options = {"seed": 0, "min_steps": SEGMENT_STEPS, "max_steps": SEGMENT_STEPS}

    def first(lookahead: int | None) -> None:
        with closing(engine.stream(text, lookahead=lookahead, **options)) as chunks:
            next(chunks)

    return Sounds(
        engine.synthesize(text, **options).duration,
        _median(lambda: first(None), rounds),
        engine.first_sound_steps(),
        _median(lambda: first(LOOKAHEAD), rounds),
        engine.first_sound_steps(LOOKAHEAD),
        _median(lambda: engine.synthesize(text, **options), max(1, rounds // 3)),
    )


def codec_times(engine: Engine, seconds: int, rounds: int) -> CodecTimes:
    """Time the codec of a set for the CPU on hidden states of noise."""
    backend, steps = engine._backend, round(seconds * STEPS_PER_SECOND)
    states = np.random.default_rng(0).standard_normal((steps, backend.runner.sizes.hidden_size), np.float32)
    windows = list(engine._speaker.windows(True, None).take(steps, ended=True))

    def decode(window: Window) -> None:
        backend.decode_hidden(states[window.first : window.first + window.steps], window)

    def whole(end: int) -> Window:
        return Window(0, end, 0, CODE_HOP * end - HOP_LENGTH)

    ends = [window.first + window.steps for window in windows]
    often = [*range(CHUNK_STEPS, steps, CHUNK_STEPS), steps]
    return CodecTimes(
        seconds,
        _median(lambda: [decode(window) for window in windows], rounds),
        _median(lambda: decode(whole(steps)), rounds),
        _median(lambda: [decode(whole(end)) for end in ends], 1),
        _median(lambda: [decode(whole(end)) for end in often], 1),
        len(windows),
    )


def _median(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def memory(engine: Engine, text: str) -> Iterator[dict[str, float]]:
    """Stream a text; resident memory (1e6 bytes) at its first sound and every 30 s of speech, with the time by then."""
    process, started, spoken, due = psutil.Process(), time.perf_counter(), 0.0, 0.0
    for chunk in engine.stream(text, seed=0):
        spoken += chunk.duration
        if spoken >= due:
            resident = process.memory_info().rss / 1e6
            yield {"speech_s": spoken, "after_s": time.perf_counter() - started, "resident_mb": resident}
            due = spoken + MEMORY_EVERY
    resident = process.memory_info().rss / 1e6
    yield {"speech_s": spoken, "after_s": time.perf_counter() - started, "resident_mb": resident}


def report(name: str, sounds: list[Sounds], codecs: list[CodecTimes]) -> None:
    """Two tables."""
    first = _table("speech s", "exact", f"lookahead {LOOKAHEAD}", "whole")
    for item in sounds:
        first.add_row(
            f"{item.seconds_of_speech:.1f}",
            f"{item.exact_s:.2f} ({item.exact_steps})",
            f"{item.lookahead_s:.2f} ({item.lookahead_steps})",
            f"{item.whole_s:.2f}",
        )
    codec = _table("speech s", "chunks", "windows", "once", "again per chunk", f"again per {CHUNK_STEPS} steps")
    for times in codecs:
        figures = (times.windows_s, times.once_s, times.again_s, times.again_often_s)
        codec.add_row(f"{times.seconds_of_speech:.0f}", str(times.chunks), *(f"{figure:.2f}" for figure in figures))
    console = Console(width=110)
    console.print(f"{name}: seconds to the first sound (steps before it)", first, sep="\n")
    console.print(f"{name}: seconds of the codec for one clip", codec, sep="\n")


def show_memory(name: str, points: list[dict[str, float]]) -> None:
    """A table."""
    table = _table("speech s", "after s", "resident MB")
    for point in points:
        table.add_row(f"{point['speech_s']:.1f}", f"{point['after_s']:.2f}", f"{point['resident_mb']:.1f}")
    Console(width=110).print(f"{name}: while a text is streamed", table, sep="\n")


def _table(*columns: str) -> Table:
    table = Table(box=None)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", type=Path, action="append", default=[])
    parser.add_argument("--published-sizes", action="store_true")
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"], choices=("fp32", "int8", "int4"))
    parser.add_argument("--keep", type=Path, help="keep the built sets here and use them again")
    parser.add_argument("--seconds", type=int, nargs="+", default=list(SECONDS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", type=Path, metavar="TEXT", help="stream this file and look at memory instead")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if not arguments.published_sizes and not arguments.engine:
        parser.error("name sets with --engine DIR, or use --published-sizes")
    results: dict[str, object] = {}
    with published_sets(arguments.keep, arguments.precision if arguments.published_sizes else []) as built:
        for folder in (*built, *arguments.engine):
            print(f"measuring {folder.name}", file=sys.stderr)
            with Engine.load(folder, backend="cpu") as engine:
                engine.warm_up()
                if arguments.memory:
                    points = list(memory(engine, arguments.memory.read_text("utf-8")))
                    results[folder.name] = points
                    if not arguments.json:
                        show_memory(folder.name, points)
                    continue
                sounds = [first_sounds(engine, seconds, arguments.rounds) for seconds in arguments.seconds]
                codecs = [codec_times(engine, seconds, arguments.rounds) for seconds in arguments.seconds]
            results[folder.name] = {"first": [asdict(x) for x in sounds], "codec": [asdict(x) for x in codecs]}
            if not arguments.json:
                report(folder.name, sounds, codecs)
    if arguments.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
