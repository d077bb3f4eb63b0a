import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from trt_tts.builders import plan_process
from trt_tts.builders.build_log import MemoryLines
from trt_tts.builders.plan_job import PlanJob, PlanReport
from trt_tts.builders.profiles import Profile, ShapeRange
from trt_tts.errors import BuildError

REPORT = PlanReport(
    MemoryLines(385_186_304, (10_267_648, 17_732_608), (0, 0), 17_732_608), 61.5, 1 << 31, "13.0.96", None
)
FP32_GEMM = (
    "IBuilder::buildSerializedNetwork: Error Code 1: Myelin ([pass.cpp:337: check_turing_op_compatibility] Cannot "
    "compile operation 'head/MatMul' for Turing (SM75): FP32 GEMM is not supported. In compileGraph at a.cpp:2012)"
)
HEAD = """
import json, os, shutil, signal, sys, time
job, report = sys.argv[1:]

def say(kind, **values):
    print(json.dumps({"kind": kind, **values}), flush=True)

"""


def job(**changes):
    profile = Profile("window", {"hidden": ShapeRange((1, 1, 64), (1, 8, 64), (1, 16, 64))})
    values = {
        "graph": "codec",
        "onnx": "codec.onnx",
        "plan": "codec.plan",
        "flavour": "tensorrt_rtx",
        "compute_capability": "7.5",
        "profiles": (profile,),
        "workspace": 1 << 30,
        "timing_cache": None,
    }
    return PlanJob(**{**values, **changes})


@pytest.fixture
def build(monkeypatch, tmp_path):
    """Runs `run_plan_job` with a script in place of the worker; returns its result and the folded log."""
    script, log, prepared = tmp_path / "worker.py", tmp_path / "codec.log", tmp_path / "prepared.json"
    REPORT.save(prepared)
    popen = subprocess.Popen

    def replaced(command, **options):
        assert command[:3] == [sys.executable, "-m", "trt_tts.builders.plan_worker"]
        return popen([sys.executable, str(script), *command[3:]], **options)

    def run(body, progress=lambda line: None, **changes):
        script.write_text(f"{HEAD}PREPARED = {str(prepared)!r}\nFOLDER = {str(tmp_path)!r}\n{body}", "utf-8")
        monkeypatch.setattr(subprocess, "Popen", replaced)
        return plan_process.run_plan_job(job(**changes), log, progress)

    run.log = log
    run.folder = tmp_path
    return run


def failure(build, body, **changes):
    with pytest.raises(BuildError) as caught:
        build(body, **changes)
    return str(caught.value)


def test_a_plan_comes_back_with_its_report_its_progress_and_its_log(build):
    body = """
assert json.load(open(job, encoding="utf-8"))["graph"] == "codec"
say("log", severity="info", text="Detected 1 inputs")
say("progress", done=1, steps=2)
say("log", severity="warning", text="Weights were clipped: 零")
say("progress", done=2, steps=2)
shutil.copy(PREPARED, report)
"""
    progress = []
    assert build(body, progress.append) == REPORT
    assert len(progress) == 2
    assert all("codec" in line for line in progress)
    assert [line.split()[-1] for line in progress] == ["1/2", "2/2"]
    assert build.log.read_text("utf-8").splitlines() == ["info: Detected 1 inputs", "warning: Weights were clipped: 零"]


def test_progress_comes_while_the_worker_goes_on(build):
    body = """
say("progress", done=1, steps=2)
while not os.path.exists(os.path.join(FOLDER, "seen")):
    time.sleep(0.01)
shutil.copy(PREPARED, report)
"""
    assert build(body, lambda line: (build.folder / "seen").touch()) == REPORT


def test_errors_of_the_worker_become_a_build_error_with_the_cause(build):
    body = f"""
say("log", severity="info", text="starting")
say("log", severity="error", text={FP32_GEMM!r})
sys.exit(1)
"""
    message = failure(build, body)
    assert "building codec for compute capability 7.5 failed" in message
    assert "head/MatMul" in message
    assert "--precision fp16" in message
    assert f"error: {FP32_GEMM}" in build.log.read_text("utf-8")


def test_a_build_for_the_gpu_here_says_so(build):
    message = failure(build, "sys.exit(1)", compute_capability=None, flavour="tensorrt")
    assert "GPU" in message
    assert "compute capability" not in message


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.case("E11")
def test_a_worker_that_the_system_kills_is_a_lack_of_memory(build):
    message = failure(build, "say('progress', done=1, steps=9)\nos.kill(os.getpid(), signal.SIGKILL)")
    assert "codec" in message
    assert "memory" in message


def test_a_container_that_reports_137_is_a_lack_of_memory(build):
    assert "memory" in failure(build, "sys.exit(137)")


def test_a_traceback_ends_in_the_line_that_says_what_happened(build):
    message = failure(build, "say('log', severity='info', text='x')\nraise RuntimeError('libnvinfer.so.10 is missing')")
    assert "building codec failed" in message
    assert "libnvinfer.so.10 is missing" in message
    assert "Traceback" not in message


def test_a_silent_failure_points_to_the_log(build):
    assert "log" in failure(build, "sys.exit(3)")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGSEGV")
def test_a_crash_inside_the_library_is_an_error_too(build):
    message = failure(build, "say('log', severity='info', text='x')\nos.kill(os.getpid(), signal.SIGSEGV)")
    assert "codec" in message


def test_blank_lines_on_stderr_are_no_message(build):
    assert "codec" in failure(build, "print('', file=sys.stderr)\nsys.exit(1)")


@pytest.mark.parametrize("line", ["not json", "{", "", "1.5", "null", "[]", '"text"', "{}"])
def test_what_a_library_prints_of_its_own_is_kept_and_does_no_harm(line, build):
    body = f"print({line!r}, flush=True)\nsay('log', severity='info', text='after')\nshutil.copy(PREPARED, report)"
    assert build(body) == REPORT
    found = build.log.read_text("utf-8").splitlines()
    assert "info: after" in found
    assert f"info: {line}" in found


def test_bytes_that_are_no_text_are_kept_too(build):
    body = "sys.stdout.buffer.write(b'\\xff\\xfe broken\\n')\nsys.stdout.flush()\nshutil.copy(PREPARED, report)"
    assert build(body) == REPORT
    assert "broken" in build.log.read_text("utf-8")


def test_much_on_both_pipes_does_not_block(build):
    body = """
for i in range(3000):
    say("log", severity="info", text=f"{i} " + "x" * 100)
    print("y" * 100, file=sys.stderr)
shutil.copy(PREPARED, report)
"""
    assert build(body) == REPORT
    assert len(build.log.read_text("utf-8").splitlines()) == 3000


def test_ctrl_c_ends_the_worker(build):
    body = """
with open(os.path.join(FOLDER, "pid"), "w") as file:
    file.write(str(os.getpid()))
say("progress", done=1, steps=9)
time.sleep(60)
"""

    def interrupt(line):
        raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        build(body, interrupt)
    assert time.monotonic() - started < 30
    assert not psutil.pid_exists(int((build.folder / "pid").read_text()))


def test_the_job_file_is_gone_afterwards(build):
    body = "print(json.dumps({'kind': 'log', 'severity': 'info', 'text': job}))\nshutil.copy(PREPARED, report)"
    build(body)
    file = build.log.read_text("utf-8").strip().removeprefix("info: ")
    assert file.endswith(".json")
    assert not os.path.exists(file)


def test_the_report_is_what_the_worker_wrote(build):
    body = "data = json.load(open(PREPARED))\ndata['seconds'] = 7.25\njson.dump(data, open(report, 'w'))"
    assert build(body).seconds == 7.25
    assert json.loads((build.folder / "prepared.json").read_text())["seconds"] == 61.5


@pytest.mark.parametrize(
    ("mask", "device", "seen"),
    [(None, 0, "0"), (None, 1, "1"), ("3,5,1", 1, "5"), ("GPU-a,GPU-b", 1, "GPU-b"), ("-1", 0, ""), ("0", 1, "")],
)
def test_the_worker_sees_the_chosen_gpu_alone_and_this_process_all_of_them(mask, device, seen, build, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    seen_by_worker = "os.environ['CUDA_VISIBLE_DEVICES']"
    build(f"say('log', severity='info', text={seen_by_worker} + '<')\nshutil.copy(PREPARED, report)", device=device)
    assert f"info: {seen}<" in build.log.read_text("utf-8")
    assert os.environ.get("CUDA_VISIBLE_DEVICES") == mask
