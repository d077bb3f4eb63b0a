"""R2 to R7: what goes wrong while a program runs."""

import json
import logging
import shutil
import socket
import subprocess
import sys

import numpy as np
import psutil
import pytest

from tests.cli.in_process import trt_tts
from trt_tts import Engine, EngineSetError, target
from trt_tts.builders.backend_choice import BackendRequest, choose_backend
from trt_tts.builders.cards import load_cards
from trt_tts.builders.checkpoint import load_checkpoint
from trt_tts.checkpoints import choose_checkpoint
from trt_tts.cli import bench
from trt_tts.cpu import threads
from trt_tts.demo import demo_checkpoint
from trt_tts.errors import CheckpointError
from trt_tts.files import sha256_of
from trt_tts.gpu_reading import GpuReading
from trt_tts.target import Machine


def test_r2_the_backend_and_its_reason_are_on_the_engine_and_in_the_log(tiny_set, caplog):
    with caplog.at_level(logging.INFO, "trt_tts"), Engine.load(tiny_set) as engine:
        assert engine.info.backend == "cpu" and "built for the CPU" in engine.info.reason
    lines = [record.getMessage() for record in caplog.records if record.name == "trt_tts"]
    assert len(lines) == 1 and "cpu backend, the set was built for the CPU" in lines[0]


def test_r2_a_build_tells_why_it_is_for_the_cpu_where_a_gpu_is():
    gpu = GpuReading("NVIDIA GeForce GTX 1650", 4_294_705_152, 1 << 29, "7.5", "580.1")
    choice = choose_backend(BackendRequest(), Machine("Linux x86_64", gpu, {}), load_cards()["gtx1650"])
    assert choice.backend == "cpu"
    assert "TensorRT is not installed; for the NVIDIA GeForce GTX 1650: " in choice.reason
    assert "pip install" in choice.reason


def test_r2_a_set_for_a_gpu_never_runs_elsewhere_in_silence(demo_gpu_set, monkeypatch):
    monkeypatch.setattr(target, "read_gpu", lambda device: None)
    with pytest.raises(EngineSetError, match="no NVIDIA GPU answers"):
        Engine.load(demo_gpu_set)


CALLS = """
import sys, numpy, psutil
from trt_tts import Engine
engine = Engine.load(sys.argv[1])
resident = []
for index, steps in enumerate(numpy.random.default_rng(0).integers(1, 25, 200)):
    engine.synthesize("hi " * (1 + index % 9), seed=index, min_steps=int(steps), max_steps=int(steps))
    resident.append(psutil.Process().memory_info().rss)
print(int(numpy.median(resident[120:]) - numpy.median(resident[40:120])))
"""


def test_r3_memory_is_flat_over_two_hundred_calls_of_random_length(tiny_set):
    done = subprocess.run([sys.executable, "-c", CALLS, str(tiny_set)], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 4e6


@pytest.mark.parametrize(
    ("allowed", "quota", "wanted"), [(8, "max 100000", 8), (8, "200000 100000", 2), (2, "800000 100000", 2)]
)
def test_r4_threads_follow_the_affinity_mask_and_the_containers_quota(monkeypatch, tmp_path, allowed, quota, wanted):
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(threads, "_CGROUP", tmp_path)
    monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(allowed)), raising=False)
    assert threads.usable_threads() == wanted


def test_r5_a_damaged_file_is_named_with_both_hashes(tiny_set, tmp_path):
    copy = shutil.copytree(tiny_set, tmp_path / "set")
    file = copy / "codec.weights"
    before = sha256_of(file)
    file.write_bytes(bytes(file.stat().st_size))
    with pytest.raises(EngineSetError) as caught:
        Engine.load(copy)
    assert all(part in str(caught.value) for part in ("codec.weights", before, sha256_of(file)))
    file.unlink()
    with pytest.raises(EngineSetError, match=r"codec\.weights"):
        Engine.load(copy)


def test_r5_nothing_is_fetched_unless_asked(tiny_set, tmp_path, monkeypatch):
    asked = []

    def refuse(*arguments, **_):
        asked.append(arguments)
        raise OSError("no network here")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    with Engine.load(tiny_set) as engine:
        assert engine.synthesize("3 hi", seed=1, max_steps=2).steps == 2
    assert choose_checkpoint(None).path == demo_checkpoint()
    for arguments in (("build", "--checkpoint", "absent"), ("say", "hi", "-e", "absent"), ("inspect", tiny_set)):
        result = trt_tts(*arguments, cwd=tmp_path)
        assert result.returncode == int("absent" in arguments), result.stderr
    assert not asked


def test_r6_the_old_checkpoint_layout_is_recognised_and_explained(tmp_path):
    (tmp_path / "asset").mkdir()
    for name in ("DVAE", "GPT", "Vocos", "Decoder"):
        (tmp_path / "asset" / f"{name}.pt").write_bytes(b"old")
    with pytest.raises(CheckpointError, match=r"old \.pt layout"):
        load_checkpoint(tmp_path)


def test_r7_warming_up_speaks_and_changes_no_later_result(tiny_set):
    with Engine.load(tiny_set) as cold:
        wanted = cold.synthesize("hi there", seed=3, max_steps=20).samples
    with Engine.load(tiny_set) as engine:
        assert engine.warm_up().samples.size > 0
        assert np.array_equal(engine.synthesize("hi there", seed=3, max_steps=20).samples, wanted)


def test_r7_a_benchmark_warms_up_first_and_reports_that_apart(tiny_set, monkeypatch):
    done = []

    def noting(name, call):
        return lambda *arguments, **options: done.append(name) or call(*arguments, **options)

    monkeypatch.setattr(Engine, "warm_up", noting("warm-up", Engine.warm_up))
    for name in ("decode_times", "call_times"):
        monkeypatch.setattr(bench, name, noting("timed", getattr(bench, name)))
    arguments = ("bench", "--engine", tiny_set, "--rounds", 1, "--steps", 10, "--text", "one", "--json")
    found = json.loads(trt_tts(*arguments).stdout)
    assert done[0] == "warm-up" and set(done[1:]) == {"timed"}
    assert found["warm_up_seconds"] > 0
