"""Runs `plan_worker` and turns what it says into progress, a log and errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

from trt_tts.errors import BuildError
from trt_tts.gpu_reading import visible_gpu
from trt_tts.progress import Progress

from .build_log import LogLine, cause_of, fold
from .plan_job import PlanJob, PlanReport

_KILLED = (-9, 137)


def run_plan_job(job: PlanJob, log: Path, progress: Progress) -> PlanReport:
    """Build one plan in a process of its own.

    Args:
        job: what to build.
        log: file that gets the folded log.
        progress: called with a line as the builder goes on.

    Raises:
        BuildError: names the graph, the cause and what to do next.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder) / "job.json", Path(folder) / "report.json"
        job.save(files[0])
        lines, code, errors = _run(job, files, progress)
        # A set is given away: the log must not tell where it was built.
        text = "\n".join(fold(lines)).replace(str(Path(job.onnx).parent) + os.sep, "")
        log.write_text(text + "\n", "utf-8")
        if code == 0:
            return PlanReport.load(files[1])
    kept = _keep_log(text, job.graph)
    if code in _KILLED:
        raise BuildError(
            f"building {job.graph} was stopped by the system, as happens when memory runs out. Close other programs "
            f"and build again"
        )
    if "Traceback" in errors or (errors.strip() and not any(line.severity == "error" for line in lines)):
        raise BuildError(f"building {job.graph} failed: {errors.strip().splitlines()[-1]}{kept}")
    raise BuildError(f"building {job.graph} for {_target(job)} failed: {cause_of(lines)}{kept}")


def _keep_log(text: str, graph: str) -> str:
    """Where a failed build's log went, for the end of a message; the set's own folder is removed."""
    file = Path(platformdirs.user_log_dir("trt-tts", appauthor=False)) / f"{graph}-build.log"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n", "utf-8")
    except OSError:
        return ""
    return f". The builder's log: {file}"


def _run(job: PlanJob, files: tuple[Path, Path], progress: Progress) -> tuple[list[LogLine], int, str]:
    command = [sys.executable, "-m", "trt_tts.builders.plan_worker", *map(str, files)]
    # TensorRT builds on the first GPU it sees.
    seen = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible_gpu(job.device) or ""}
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", **seen}
    lines: list[LogLine] = []
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8", errors="replace", env=environment
        ) as process:
            try:
                for text in process.stdout or ():
                    _handle(text, job.graph, lines, progress)
            except BaseException:  # Ctrl-C as well: the worker must not outlive the command
                process.kill()
                raise
        errors.seek(0)
        return lines, process.returncode, errors.read()


def _handle(text: str, graph: str, lines: list[LogLine], progress: Progress) -> None:
    try:
        event = json.loads(text)
    except ValueError:
        event = None
    match event:
        case {"kind": "log", "severity": str(severity), "text": str(said)}:
            lines.append(LogLine(severity, said))
        case {"kind": "progress", "done": int(done), "steps": int(steps)}:
            progress(f"building {graph} {done}/{steps}")
        case _:  # a library printed something of its own
            lines.append(LogLine("info", text.rstrip()))


def _target(job: PlanJob) -> str:
    return f"compute capability {job.compute_capability}" if job.compute_capability else "the GPU here"
