"""Builds one plan in a process of its own, so that a small card has all its memory for it.

Run as `python -m trt_tts.builders.plan_worker JOB REPORT`. Progress and log go to stdout, one JSON object a line.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from trt_tts.files import new_file
from trt_tts.flavour import Flavour, aim, load_flavour, network_flags

from .build_log import LogLine, read_memory
from .plan_job import PlanJob, PlanReport

_INT8 = re.compile(r"Int8|i8i8|imma", re.IGNORECASE)
"""In a type, or in a kernel's name."""
_SEVERITIES = ("error", "error", "warning", "info", "verbose")


def emit(kind: str, **values: Any) -> None:
    """One event for the parent process."""
    sys.stdout.write(json.dumps({"kind": kind, **values}) + "\n")
    sys.stdout.flush()


def build_plan(job: PlanJob) -> PlanReport | None:
    """Build `job.plan`; None after errors, which went to the log."""
    flavour = load_flavour(job.flavour)
    trt, logger, started = flavour.module, _logger(flavour.module), time.perf_counter()
    builder = trt.Builder(logger)
    network = builder.create_network(network_flags(flavour))
    parser = trt.OnnxParser(network, logger)
    if not parser.parse_from_file(job.onnx):
        for i in range(parser.num_errors):
            emit("log", severity="error", text=parser.get_error(i).desc())
        return None
    config = builder.create_builder_config()
    aim(flavour, config, job.compute_capability)
    _set_flags(trt, config)
    _limit_memory(trt, config, job.workspace)
    if not _add_profiles(builder, network, config, job):
        return None
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    monitor = _progress_monitor(trt)  # kept alive: the config holds no reference
    config.progress_monitor = monitor
    _load_timing_cache(config, job.timing_cache)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        return None
    with new_file(Path(job.plan)) as file:
        file.write_bytes(plan)
    _save_timing_cache(config, job.timing_cache)
    return PlanReport(
        memory=read_memory(logger.lines),
        seconds=time.perf_counter() - started,
        peak_bytes=_peak_bytes(),
        cuda=_cuda_release(),
        int8_layers=_int8_layers(flavour, logger, plan),
    )


def _logger(trt: Any) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.lines: list[LogLine] = []

        def log(self, severity: Any, text: str) -> None:
            line = LogLine(_SEVERITIES[int(severity)], text)
            self.lines.append(line)
            emit("log", severity=line.severity, text=text)

    return Logger()


def _progress_monitor(trt: Any) -> Any:
    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)
            self.outer: dict[str, int] = {}
            """Steps of the phases that are part of no other; the inner ones come by the hundred."""

        def phase_start(self, phase: str, parent: str | None, steps: int) -> None:
            if parent is None:
                self.outer[phase] = steps

        def step_complete(self, phase: str, step: int) -> bool:
            if phase in self.outer:
                emit("progress", done=step + 1, steps=self.outer[phase])
            return True

        def phase_finish(self, phase: str) -> None:
            self.outer.pop(phase, None)

    return Monitor()


def _set_flags(trt: Any, config: Any) -> None:
    # What the graph says is FP32 is FP32: TF32 would round its factors to 11 bits.
    config.clear_flag(trt.BuilderFlag.TF32)
    # The runtime allocates once and captures CUDA graphs. Releases without the flag leave both to luck.
    if hasattr(trt.BuilderFlag, "REQUIRE_USER_ALLOCATION"):
        config.set_flag(trt.BuilderFlag.REQUIRE_USER_ALLOCATION)


def _limit_memory(trt: Any, config: Any, workspace: int) -> None:
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace)
    # TensorRT takes powers of two only for this one.
    config.set_memory_pool_limit(trt.MemoryPoolType.TACTIC_DRAM, 1 << (workspace.bit_length() - 1))


def _add_profiles(builder: Any, network: Any, config: Any, job: PlanJob) -> bool:
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    for wanted in job.profiles:
        profile = builder.create_optimization_profile()
        for tensor in inputs:
            shapes = wanted.shapes[tensor.name]
            profile.set_shape(tensor.name, shapes.least, shapes.typical, shapes.most)
        if config.add_optimization_profile(profile) < 0:
            emit("log", severity="error", text=f"optimization profile {wanted.name} was refused")
            return False
    return True


def _load_timing_cache(config: Any, file: str | None) -> None:
    """Use what earlier builds measured; a damaged or foreign cache is left aside."""
    if file is None:
        return
    try:
        saved = Path(file).read_bytes()
    except OSError:
        saved = b""
    cache = config.create_timing_cache(saved)
    if cache is None or not config.set_timing_cache(cache, False):
        config.set_timing_cache(config.create_timing_cache(b""), False)


def _save_timing_cache(config: Any, file: str | None) -> None:
    """Keep the timings for the next build; a plan is not lost because they cannot be kept."""
    if file is None:
        return
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        with new_file(Path(file)) as work:
            work.write_bytes(config.get_timing_cache().serialize())
    except OSError as error:
        emit("log", severity="warning", text=f"the timing cache cannot be kept: {error}")


def _int8_layers(flavour: Flavour, logger: Any, plan: Any) -> int | None:
    """Ask the engine inspector, where there is a GPU to open the plan on."""
    if flavour.builds_ahead:
        return None  # the whole graph is one compiled node there
    engine = flavour.module.Runtime(logger).deserialize_cuda_engine(plan)
    if engine is None:
        return None
    inspector = engine.create_engine_inspector()
    try:
        layers = json.loads(inspector.get_engine_information(flavour.module.LayerInformationFormat.JSON))["Layers"]
        told = [_types_told(layer) for layer in layers]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        emit("log", severity="warning", text=f"the engine inspector's answer is not understood: {error}")
        return None
    if not any(told):
        emit("log", severity="warning", text="the engine inspector tells the type of no layer")
        return None
    return sum(_INT8.search(types) is not None for types in told)


def _types_told(layer: dict[str, Any]) -> str:
    """What names types in the inspector's words; where shapes are dynamic, that is not the tensors' formats."""
    tensors = [*layer.get("Inputs", ()), *layer.get("Outputs", ())]
    formats = [item.get("Format/Datatype", "") for item in tensors]
    weights = [item["Type"] for item in layer.values() if isinstance(item, dict) and "Type" in item]
    return " ".join([*(item for item in formats if not item.startswith("N/A")), *weights, layer.get("TacticName", "")])


def _cuda_release() -> str | None:
    """The CUDA runtime that the TensorRT packages brought."""
    import importlib.metadata

    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _peak_bytes() -> int:
    """Largest resident size so far. Linux's getrusage would count the parent process in."""
    status = Path("/proc/self/status")
    if status.exists():
        fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(fields["VmHWM"].split()[0]) * 1024
    memory = psutil.Process().memory_info()
    return int(getattr(memory, "peak_wset", memory.rss))


def main(job_file: str, report_file: str) -> int:
    """Exit code 0 when the plan and its report are written."""
    job = PlanJob.load(Path(job_file))
    report = build_plan(job)
    if report is None:
        return 1
    report.save(Path(report_file))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
