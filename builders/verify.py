"""Runs a TensorRT set's self-test on the GPU it is for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from trt_tts.errors import BuildError
from trt_tts.flavour import Flavour
from trt_tts.manifest import Manifest
from trt_tts.plan_info import Verification
from trt_tts.selftest import CaseResult, load_cases, run_cases

from .plan_runner import PlanRunner

Progress = Callable[[str], None]


def verify_folder(folder: Path, manifest: Manifest, flavour: Flavour, progress: Progress) -> Manifest:
    """Run every case of the set on the GPU here and compare with FP32.

    Returns:
        The manifest with the results.

    Raises:
        BuildError: a case failed; holds the first failures.
    """
    results = tuple(_run(folder, manifest, flavour, progress))
    failures = [item for item in results if item.problem]
    if failures:
        listed = "; ".join(f"{item.graph} {item.profile}, {item.shape}: {item.problem}" for item in failures[:3])
        raise BuildError(
            f"the set fails its self-test in {len(failures)} of {len(results)} cases on this GPU: {listed}. Try "
            f"another --precision, or update the driver"
        )
    reason = f"{len(results)} cases within their limits on this GPU"
    return replace(manifest, verification=Verification(True, reason, results))


def _run(folder: Path, manifest: Manifest, flavour: Flavour, progress: Progress) -> Iterator[CaseResult]:
    cases = load_cases(folder)
    for name, graph in manifest.graphs.items():
        if graph.plan is None:
            continue
        profiles = tuple(profile.name for profile in graph.plan.profiles)
        runner = PlanRunner(flavour, folder / graph.files[0], profiles, manifest.config.gpt, manifest.limits.capacity)
        with runner:
            own = [case for case in cases if case.graph == name]
            yield from run_cases(own, runner.execute, manifest.precision, progress)
