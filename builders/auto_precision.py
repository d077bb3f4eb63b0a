"""`--precision auto` on a GPU: build every candidate, keep the fastest that passes its self-test.

A card without tensor cores may run FP16 slower than FP32, or INT8 faster than both: that is measured, never assumed.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from trt_tts.cuda.device import Device
from trt_tts.errors import BuildError, TrtTtsError
from trt_tts.files import new_folder, require_new
from trt_tts.flavour import Flavour
from trt_tts.manifest import Manifest
from trt_tts.plan_info import Verification
from trt_tts.progress import Progress
from trt_tts.selftest import load_cases

from .checkpoint import Checkpoint
from .gpu_set import GpuBuild, build_gpu_set
from .plan_runner import PlanRunner

Times = dict[str, float]


def candidates(build: GpuBuild) -> tuple[str, ...]:
    """The precisions worth trying for a build: INT8 with a calibration, FP32 where the card and builder run it."""
    found = ["fp16"]
    if build.calibration is not None:
        found.append("int8")
    if build.fp32_products:
        found.append("fp32")
    return tuple(found)


def build_fastest(checkpoint: Checkpoint, target: Path, build: GpuBuild, force: bool, progress: Progress) -> Manifest:
    """Build all candidates beside `target` and put the fastest there; its manifest holds all times.

    Raises:
        BuildError: none passes its self-test.
        as `build_gpu_set` otherwise.
    """
    require_new(target, force, Manifest.marks)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as scratch:
        built: dict[str, Manifest] = {}
        times: dict[str, Times] = {}
        failures = []
        for precision in candidates(build):
            folder = Path(scratch) / precision
            try:
                built[precision] = build_gpu_set(
                    checkpoint, folder, replace(build, precision=precision), progress=progress
                )
                progress(f"timing {precision}")
                times[precision] = time_set(folder, built[precision], build.flavour, build.device)
            except TrtTtsError as error:  # too large for the card, out of range, failed: the next one may do
                times[precision] = {}
                failures.append(f"{precision}: {error}")
        best = min((name for name, found in times.items() if found), key=lambda name: _cost(times[name]), default=None)
        if best is None:
            raise BuildError("no precision can be built and passes its self-test on this card. " + "; ".join(failures))
        manifest = replace(built[best], verification=_with_times(built[best], times))
        with new_folder(target, force, Manifest.marks) as folder:
            for file in (Path(scratch) / best).iterdir():
                shutil.move(file, folder / file.name)
            manifest.save(folder)
    return manifest


def time_set(folder: Path, manifest: Manifest, flavour: Flavour, device: int = 0) -> Times:
    """Profile -> seconds of one call on the GPU here, of the `gpt` graph's one-row cases."""
    graph, times = manifest.graphs["gpt"], {}
    sizes, capacity = manifest.config.gpt, manifest.limits.capacity
    with (
        closing(Device(device)) as opened,
        opened.activated(),
        closing(PlanRunner(flavour, opened, folder / graph.files[0], graph, sizes, capacity)) as runner,
    ):
        for case in load_cases(folder):
            if case.graph == "gpt" and len(case.calls[0]["start"]) == 1:
                times[case.profile] = runner.seconds(case)
    return times


def _cost(times: Times) -> float:
    """Seconds per second of speech weigh most: a decode step runs hundreds of times for each prefill."""
    decode = [seconds for profile, seconds in times.items() if profile.startswith("decode")]
    return min(decode) + times.get("prefill", 0.0) / 100


def _with_times(manifest: Manifest, times: dict[str, Times]) -> Verification | None:
    return replace(manifest.verification, times=times) if manifest.verification else None
