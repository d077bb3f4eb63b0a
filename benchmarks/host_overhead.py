"""Host time of a decode step: the runtime at the published sizes, on an emulated GPU with engines that do nothing.

    python benchmarks/host_overhead.py [--driver pycuda]

What is timed is the whole decode loop of this program after the prompts, noise and bookkeeping included, and
the emulated driver's own work. While a GPU computes a step, the host prepares the next: as long as this figure is below
the step's time, the GPU never waits. Needs a C compiler; Linux only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
LIMITS_US = {1: 120.0, 4: 200.0}
"""Rows -> the most microseconds per step that this project allows itself."""
STEPS = 400


def measure(rounds: int) -> dict[int, list[float]]:
    """Rows -> microseconds per step, one figure per round; in this process, whose GPU is emulated."""
    from tests.cuda_emulator.idle_set import write_idle_set
    from trt_tts.generation import DecodeLoop, Request, Sampling
    from trt_tts.gpu.backend import GpuBackend
    from trt_tts.manifest import Limits
    from trt_tts.model_config import ModelConfig

    config, width = ModelConfig(), ModelConfig().gpt.hidden_size
    prompt = np.zeros((32, width), np.float32), np.zeros((32, 4), np.int32), np.zeros(32, np.bool_)
    found: dict[int, list[float]] = {rows: [] for rows in LIMITS_US}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        manifest = write_idle_set(folder, config, Limits(max(LIMITS_US), 2048, 128, 512))
        backend = GpuBackend(folder, manifest, 0, None)
        with backend.activated():
            backend.warm_up()
            for _ in range(rounds):
                for rows in LIMITS_US:
                    loop = DecodeLoop(backend.runner, rows)
                    sequences = [
                        loop.submit(Request(*prompt, Sampling(0.3, 0.7, 20, 1.05), row, 0, STEPS, STEPS))
                        for row in range(rows)
                    ]
                    # Prompts, whose rows are cleared first: on a GPU that is no work of the host.
                    loop.advance()
                    backend.device.synchronize()
                    started, done = time.perf_counter(), len(sequences[0].codes)
                    while loop.busy:
                        loop.advance()
                    steps = STEPS - done
                    found[rows].append((time.perf_counter() - started) / steps * 1e6)
                    if [len(item.codes) for item in sequences] != [STEPS] * rows:
                        raise RuntimeError("a sequence ended early: the figure would be no step's")
        backend.close()
    return found


def floor_ms(rows: int) -> float:
    """Milliseconds of a step that the memory bandwidth of a GTX 1650 alone allows: FP16, 256 positions."""
    from trt_tts.builders.cards import load_cards
    from trt_tts.builders.planner import plan_memory
    from trt_tts.model_config import ModelConfig

    plan = plan_memory(ModelConfig(), load_cards()["gtx1650"], "fp16", rows)
    return next(bound.milliseconds for bound in plan.bounds if bound.rows == rows and bound.span == 256)


def run_emulated(driver: str, rounds: int) -> dict[int, list[float]]:
    """`measure` in a process that sees the emulated GPU."""
    from tests.cuda_emulator.compiling import build_library
    from tests.cuda_emulator.environment import emulated_environment
    from tests.cuda_emulator.pycuda_wheel import pycuda_folder

    with tempfile.TemporaryDirectory() as temporary:
        library = build_library(Path(temporary))
        packages = pycuda_folder(library) if driver == "pycuda" else None
        environment = emulated_environment(library, driver, packages)
        command = [sys.executable, __file__, "--measure", "--rounds", str(rounds)]
        output = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return {int(rows): figures for rows, figures in json.loads(output).items()}


def main() -> int:
    """The command line; exit code 1 where a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", choices=("cuda-bindings", "pycuda"), default="cuda-bindings")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.rounds)))
        return 0
    exceeded = False
    print(f"host time per step over {arguments.driver}, emulated GPU, engines that do nothing, published sizes:")
    for rows, figures in run_emulated(arguments.driver, arguments.rounds).items():
        median, floor, most = statistics.median(figures), floor_ms(rows), LIMITS_US[rows]
        exceeded |= median > most
        print(
            f"batch {rows}: {median:.0f} us (min {min(figures):.0f}, max {max(figures):.0f}; allowed {most:.0f}), "
            f"{median / floor / 10:.1f} % of the {floor:.1f} ms in which a GTX 1650 can read what a step reads"
        )
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
