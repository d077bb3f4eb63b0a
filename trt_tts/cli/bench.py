"""`trt-tts bench`."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trt_tts.bench import CallTimes, StepTimes, call_times, decode_times
from trt_tts.cli.console import megabytes, note, out, print_json, progress, table
from trt_tts.engine import MOST_DEVICES, Engine, EngineInfo
from trt_tts.gpu_reading import read_gpu
from trt_tts.loading import TENSORRT
from trt_tts.model_config import STEPS_PER_SECOND
from trt_tts.options import require_whole
from trt_tts.progress import Progress
from trt_tts.sets import choose_set

TEXT = "the engine is ready"
"""Words that the demo voice knows."""


def bench(
    engine: Annotated[Path | None, typer.Option("--engine", "-e", help="Engine-set folder.")] = None,
    text: Annotated[str, typer.Option(help="What the whole calls say.")] = TEXT,
    context: Annotated[int, typer.Option(help="Attended positions of the measured steps.")] = 256,
    steps: Annotated[int, typer.Option(help="Decode steps per round.")] = 100,
    rounds: Annotated[int, typer.Option(help="Rounds; the table shows medians.")] = 5,
    device: Annotated[int, typer.Option(help="Index of the GPU.")] = 0,
    threads: Annotated[int | None, typer.Option(help="CPU threads; without it all this process may use.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure an engine set here: steps/s and GB/s, driver calls per step, RTF, memory. Warming up is not in the times.

    Without --engine: $TRT_TTS_ENGINE, then the newest set in ./engines.

    [bold]Examples[/bold]

      trt-tts bench --engine engines/gtx1650-fp16

      trt-tts bench --context 1024 --rounds 3 --json
    """
    require_whole("device", device, 0, MOST_DEVICES)
    for name, value, most in (("context", context, 100_000), ("steps", steps, 10_000), ("rounds", rounds, 1000)):
        require_whole(name, value, 1, most)
    choice = choose_set(engine)
    note(f"engine set: {choice.path} ({choice.reason})")
    with progress() as stage:
        found = _measure(choice.path, device, threads, text, Rounds(context, steps, rounds), stage)
    if as_json:
        print_json(_json(found))
    else:
        _print(found)


@dataclass(frozen=True)
class Rounds:
    """What to time, and how often."""

    context: int
    steps: int
    count: int


@dataclass(frozen=True)
class Report:
    """Everything that was measured."""

    info: EngineInfo
    steps: list[StepTimes]
    call: CallTimes
    load_seconds: float
    warm_up_seconds: float
    taken: int | None
    """Bytes of GPU memory more in use than before, by the driver."""
    card_gbs: float | None
    """Bandwidth of the card's memory."""


def _measure(folder: Path, device: int, threads: int | None, text: str, rounds: Rounds, stage: Progress) -> Report:
    before, started = read_gpu(device), time.perf_counter()
    stage("loading")
    with Engine.load(folder, device=device, threads=threads) as loaded:
        ready = time.perf_counter()
        stage("warming up")
        loaded.warm_up()
        warm, steps = time.perf_counter(), []
        for rows in sorted({1, loaded.info.limits.max_batch}):
            stage(f"timing decode steps, rows: {rows}")
            steps.append(decode_times(loaded, rows, rounds.context, rounds.steps, rounds.count))
        stage("timing whole calls")
        call, info, after = call_times(loaded, text, rounds.count), loaded.info, read_gpu(device)
    here = info.backend == TENSORRT
    taken = after.used - before.used if here and before and after else None
    return Report(
        info, steps, call, ready - started, warm - ready, taken, after.bandwidth_gbs if here and after else None
    )


def _print(found: Report) -> None:
    note(f"{found.info.backend}, {found.info.precision}: {found.info.reason}")
    rows = table(
        f"Decode steps at {found.steps[0].context} positions; real time is {STEPS_PER_SECOND:.1f} steps/s",
        "rows", "ms per step", "steps/s per row", "bytes per step", "GB/s", "of the card's", "driver calls per step",
    )  # fmt: skip
    for item in found.steps:
        rows.add_row(
            str(item.rows),
            f"{item.milliseconds:.2f}",
            f"{item.steps_per_second:.1f}",
            megabytes(item.bytes),
            f"{item.gbs:.1f}",
            f"{item.gbs / found.card_gbs:.0%} of {found.card_gbs:.0f}" if found.card_gbs else "",
            "" if item.driver_calls is None else f"{item.driver_calls:.1f}",
        )
    out.print(rows)
    call = found.call
    out.print(
        f"a call: {call.seconds_of_speech:.2f} s of speech in {call.seconds:.3f} s, RTF {call.rtf:.3f}; first "
        f"sound of a stream after {call.first_seconds:.3f} s"
    )
    out.print(f"load {found.load_seconds:.2f} s, warm-up {found.warm_up_seconds:.2f} s")
    memory = sum(part.bytes for part in found.info.memory if part.where == "device")
    if memory:
        told = "which the driver does not confirm" if found.taken is None else f"by the driver {megabytes(found.taken)}"
        out.print(f"GPU memory: by the engine's account {megabytes(memory)}, {told}")


def _json(found: Report) -> dict[str, Any]:
    info = found.info
    return {
        **asdict(found),
        "info": {"set": str(info.path), "backend": info.backend, "precision": info.precision, "reason": info.reason},
        "steps": [{**asdict(item), "steps_per_second": item.steps_per_second, "gbs": item.gbs} for item in found.steps],
        "call": {**asdict(found.call), "rtf": found.call.rtf},
        "memory": [asdict(part) for part in info.memory],
    }


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(bench)
