"""Decode speed, pipeline RTF, memory and load time of CPU engine sets, with the memory-bandwidth floor beside them.

    python benchmarks/cpu_decode.py --published-sizes           random weights of the published ChatTTS sizes
    python benchmarks/cpu_decode.py --engine DIR [--engine DIR]  sets you have

Every set is measured in a process of its own, the sets in turn, `--rounds` times; the table shows medians.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
from rich.console import Console
from rich.table import Table

from trt_tts import Engine
from trt_tts.bench import decode_times
from trt_tts.cpu.threads import usable_threads
from trt_tts.model_config import STEPS_PER_SECOND

PRECISIONS = ("fp32", "int8", "int4")


@dataclass(frozen=True)
class Measured:
    """One process's figures."""

    precision: str
    load_s: float
    resident_mb: float
    """After one synthesis, the always-loaded graphs only."""
    steps_per_s: float
    rtf: float
    floor_mb: float
    """Bytes one step must read: weights and the cache attended to."""


def measure(folder: Path, batch: int, context: int, steps: int) -> Measured:
    """Load, speak and decode with one set, in this process."""
    started = time.perf_counter()
    engine = Engine.load(folder)
    load = time.perf_counter() - started
    engine.warm_up()
    precision = engine.info.precision
    started = time.perf_counter()
    audio = engine.synthesize("the engine is ready", seed=0, min_steps=steps, max_steps=steps)
    rtf = (time.perf_counter() - started) / audio.duration
    resident = psutil.Process().memory_info().rss / 1e6
    found = decode_times(engine, batch, context, steps, rounds=1)
    engine.close()
    return Measured(precision, load, resident, found.steps_per_second, rtf, found.bytes / 1e6)


def read_bandwidth() -> float:
    """Bytes per second that all usable threads together read from memory: the best of five passes over 1 GB."""
    threads = usable_threads()
    parts = np.array_split(np.ones(256_000_000, np.float32), threads)
    best = 0.0
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(5):
            started = time.perf_counter()
            list(pool.map(np.max, parts))
            best = max(best, sum(part.nbytes for part in parts) / (time.perf_counter() - started))
    return best


@contextmanager
def published_sets(keep: Path | None, precisions: list[str]) -> Iterator[list[Path]]:
    """Engine sets of the published sizes with random weights; kept in `keep`, else in a temporary folder."""
    from random_checkpoint import write_random_checkpoint

    from trt_tts.builders.checkpoint import load_checkpoint
    from trt_tts.builders.cpu_set import CpuBuild, build_cpu_set

    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        sets = [folder / f"published-{precision}" for precision in precisions]
        missing = [(path, precision) for path, precision in zip(sets, precisions, strict=True) if not path.exists()]
        if missing:
            checkpoint = load_checkpoint(write_random_checkpoint(Path(temporary) / "random"))
            for path, precision in missing:
                print(f"building {path.name}", file=sys.stderr)
                build_cpu_set(checkpoint, path, CpuBuild(precision, max_batch=4, gate=False))
        yield sets


def run_rounds(sets: list[Path], arguments: argparse.Namespace) -> dict[Path, list[Measured]]:
    """Measure the sets in turn, `rounds` times."""
    results: dict[Path, list[Measured]] = {path: [] for path in sets}
    for _ in range(arguments.rounds):
        for path in sets:
            command = [sys.executable, __file__, "--measure", str(path), "--batch", str(arguments.batch)]
            command += ["--context", str(arguments.context), "--steps", str(arguments.steps)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            results[path].append(Measured(**json.loads(output)))
    return results


def report(results: dict[Path, list[Measured]], bandwidth: float, arguments: argparse.Namespace) -> None:
    """The table of medians."""
    title = (
        f"batch {arguments.batch}, context {arguments.context}, {usable_threads()} threads; memory reads at "
        f"{bandwidth / 1e9:.1f} GB/s; real time is {STEPS_PER_SECOND:.1f} steps/s"
    )
    table = Table(title=title, title_justify="left", box=None)
    for column in ("set", "steps/s", "min-max", "floor MB/step", "bound steps/s", "RTF", "resident MB", "load s"):
        table.add_column(column)
    for path, rounds in results.items():
        speeds = [item.steps_per_s for item in rounds]
        floor = rounds[0].floor_mb
        table.add_row(
            path.name,
            f"{statistics.median(speeds):.1f}",
            f"{min(speeds):.1f}-{max(speeds):.1f}",
            f"{floor:.0f}",
            f"{bandwidth / 1e6 / floor:.0f}",
            f"{statistics.median(item.rtf for item in rounds):.2f}",
            f"{statistics.median(item.resident_mb for item in rounds):.0f}",
            f"{statistics.median(item.load_s for item in rounds):.2f}",
        )
    Console(width=110).print(table)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--published-sizes", action="store_true")
    parser.add_argument("--precision", nargs="+", default=["fp32", "int8"], choices=PRECISIONS)
    parser.add_argument("--engine", type=Path, action="append", default=[])
    parser.add_argument("--keep", type=Path, help="keep the built sets here and use them again")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(asdict(measure(arguments.measure, arguments.batch, arguments.context, arguments.steps))))
        return
    if not arguments.published_sizes and not arguments.engine:
        parser.error("name sets with --engine DIR, or use --published-sizes")
    with published_sets(arguments.keep, arguments.precision if arguments.published_sizes else []) as built:
        results = run_rounds([*built, *arguments.engine], arguments)
    bandwidth = read_bandwidth()
    if arguments.json:
        figures = {path.name: [asdict(item) for item in rounds] for path, rounds in results.items()}
        print(json.dumps({"bandwidth": bandwidth, "sets": figures}))
        return
    report(results, bandwidth, arguments)


if __name__ == "__main__":
    main()
