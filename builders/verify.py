"""Runs a TensorRT set's self-test on the GPU it is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from trt_tts.cuda.device import Device
from trt_tts.errors import BuildError, EngineSetError
from trt_tts.flavour import Flavour
from trt_tts.manifest import Manifest
from trt_tts.plan_info import PlanInfo, Verification
from trt_tts.progress import Progress
from trt_tts.selftest import CaseResult, load_cases, run_cases

from .plan_runner import PlanRunner


def verify_folder(folder: Path, manifest: Manifest, flavour: Flavour, progress: Progress, device: int = 0) -> Manifest:
    """Run every case of the set on the GPU here and compare with FP32.

    Returns:
        The manifest with the results, whether or not they are good.

    Raises:
        EngineSetError: a graph has no case, or TensorRT cannot run it.
        CudaError: the GPU fails.
    """
    with closing(Device(device)) as opened, opened.activated():
        results = tuple(_run(folder, manifest, flavour, opened, progress))
    failed = [item for item in results if item.problem]
    if not failed:
        reason = f"{len(results)} cases within their limits on this GPU"
        return replace(manifest, verification=Verification(True, reason, results))
    listed = "; ".join(f"{item.graph} {item.profile}, {item.shape}: {item.problem}" for item in failed[:3])
    reason = f"{len(failed)} of {len(results)} cases fail on this GPU: {listed}"
    return replace(manifest, verification=Verification(False, reason, results))


def require_verified(manifest: Manifest) -> None:
    """Raises BuildError unless the set passed its self-test."""
    if manifest.verification is None or not manifest.verification.verified:
        reason = manifest.verification.reason if manifest.verification else "it was not run"
        raise BuildError(f"the set's self-test: {reason}. Try another --precision, or update the driver")


def _run(
    folder: Path, manifest: Manifest, flavour: Flavour, device: Device, progress: Progress
) -> Iterator[CaseResult]:
    cases = load_cases(folder)
    for name, graph in manifest.graphs.items():
        if graph.plan is None:
            continue
        sizes, capacity = manifest.config.gpt, manifest.limits.capacity
        runner = PlanRunner(flavour, device, folder / graph.files[0], graph, sizes, capacity)
        with closing(runner):
            own = [case for case in cases if case.graph == name]
            if not own:
                raise EngineSetError(f"{folder} holds no self-test of {name}. Build it again with this version")
            yield from run_cases(own, runner.execute, _precision(manifest, graph.plan), progress)


def _precision(manifest: Manifest, plan: PlanInfo) -> str:
    return "int8" if plan.int8_share else manifest.precision
