"""R2 to R7: what goes wrong while a program runs."""

import logging
import shutil
import subprocess
import sys

import numpy as np
import psutil
import pytest

from trt_tts import Engine, EngineSetError
from trt_tts.builders.checkpoint import load_checkpoint
from trt_tts.cpu import threads
from trt_tts.errors import CheckpointError
from trt_tts.files import sha256_of


def test_r2_the_backend_and_its_reason_are_on_the_engine_and_in_the_log(tiny_set, caplog):
    with caplog.at_level(logging.INFO, "trt_tts"), Engine.load(tiny_set) as engine:
        assert engine.info.backend == "cpu" and "built for the CPU" in engine.info.reason
    lines = [record.getMessage() for record in caplog.records if record.name == "trt_tts"]
    assert len(lines) == 1 and "cpu backend, the set was built for the CPU" in lines[0]


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
