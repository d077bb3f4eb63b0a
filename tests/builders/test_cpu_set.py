import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.conftest import export_by_copying
from trt_tts import Audio, Engine, ExportError, TrtTtsError, UsageError
from trt_tts.builders import cpu_set, gate
from trt_tts.builders.cpu_set import CpuBuild, build_cpu_set
from trt_tts.errors import BuildError
from trt_tts.manifest import Manifest
from trt_tts.quality import GATES


def test_manifest_records_what_the_set_was_built_from(demo, demo_int8_set):
    manifest = Manifest.load(demo_int8_set)
    assert (manifest.backend, manifest.precision, manifest.limits.max_batch, manifest.limits.capacity) == (
        "cpu",
        "int8",
        4,
        2048,
    )
    assert manifest.checkpoint.files == demo.hashes
    assert manifest.quality.top1 > 0.97 and manifest.quality.words.utterances == 25
    assert not manifest.quality.simulated
    assert manifest.config == demo.config
    assert manifest.prompt == demo.prompt
    assert manifest.target.runtime.startswith("onnxruntime ")
    assert all(0 <= graph.export_error < 1e-4 for graph in manifest.graphs.values())
    assert {name for name, graph in manifest.graphs.items() if graph.resident} == {"gpt", "codec"}
    present = {file.name for file in demo_int8_set.iterdir()} - {"manifest.json"}
    assert set(manifest.files) == present


def test_a_failed_build_leaves_nothing_behind(tiny, tmp_path, monkeypatch):
    def fail(graph, folder):
        (folder / "half.onnx").write_bytes(b"half")
        raise ExportError("broken")

    monkeypatch.setattr(cpu_set, "export_graph", fail)
    with pytest.raises(ExportError, match="broken"):
        build_cpu_set(tiny, tmp_path / "sets" / "new", CpuBuild())
    assert list((tmp_path / "sets").iterdir()) == []


def test_existing_folder_is_kept_without_force_and_when_a_forced_build_fails(tiny, tmp_path, monkeypatch):
    target = tmp_path / "set"
    target.mkdir()
    (target / "mine").write_text("keep")
    for force in (False, True):
        with pytest.raises(UsageError, match="never overwritten"):
            build_cpu_set(tiny, target, CpuBuild(), force)
    (target / "manifest.json").write_text('{"format_version": 0}')
    with pytest.raises(UsageError, match="--force"):
        build_cpu_set(tiny, target, CpuBuild())
    monkeypatch.setattr(cpu_set, "export_graph", lambda graph, folder: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        build_cpu_set(tiny, target, CpuBuild(), force=True)
    assert [file.name for file in tmp_path.iterdir()] == ["set"]
    assert (target / "mine").read_text() == "keep"


def test_full_disk_is_found_before_anything_is_written(tiny, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=1000))
    with pytest.raises(TrtTtsError, match="not enough disk space"):
        build_cpu_set(tiny, tmp_path / "set", CpuBuild())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": "fp16"},
        {"precision": "INT8"},
        {"max_batch": 0},
        {"max_batch": 65},
        {"max_seconds": 0.5},
        {"max_seconds": float("nan")},
        {"max_seconds": -3.0},
        {"max_seconds": float("inf")},
    ],
)
def test_wrong_requests_name_the_value(wrong):
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        CpuBuild(**wrong)


@pytest.mark.parametrize("value", [0.0, np.nan])
@pytest.mark.case("E10")
def test_a_set_that_speaks_silence_or_nan_fails_the_build(tiny_set, tmp_path, monkeypatch, value):
    def broken(self):
        return Audio(np.full(100, value, np.float32), 0, 1, False, "a")

    monkeypatch.setattr(Engine, "warm_up", broken)
    with pytest.raises(ExportError, match="silence"):
        cpu_set._self_test(tiny_set)


def test_a_set_whose_linears_were_not_quantized_fails_the_build(demo, demo_set):
    with pytest.raises(ExportError, match="0 of the 20 linears"):
        cpu_set._require_quantized(onnx.load(demo_set / "gpt.onnx", load_external_data=False), demo.config)


@pytest.fixture
def exported_before(tiny_set, monkeypatch):
    monkeypatch.setattr(gate, "MOST_TEXTS", 3)
    monkeypatch.setattr(gate, "STEPS", 64)
    monkeypatch.setattr(cpu_set, "export_graph", export_by_copying(tiny_set))


@pytest.mark.slow
def test_a_voice_that_does_not_survive_fails_the_build(tiny, tmp_path, exported_before, monkeypatch):
    strict = replace(GATES["int8"], least_top1=1.1)
    monkeypatch.setitem(GATES, "int8", strict)
    with pytest.raises(BuildError, match=r"top-1 agreement .*allowed at least 110\.00%.*--no-gate"):
        build_cpu_set(tiny, tmp_path / "set", CpuBuild("int8"))
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(cpu_set, "make_judge", lambda *_: pytest.fail("must not be judged"))
    manifest = build_cpu_set(tiny, tmp_path / "set", CpuBuild("int8", gate=False))
    assert manifest.quality is None
    assert not [path for path in (tmp_path / "set").iterdir() if path.is_dir()]


def test_what_the_gate_measured_is_in_the_manifest(tiny, tmp_path, exported_before, monkeypatch):
    monkeypatch.setitem(GATES, "int8", GATES["int4"])
    manifest = build_cpu_set(tiny, tmp_path / "set", CpuBuild("int8"))
    assert Manifest.load(tmp_path / "set").quality == manifest.quality
    assert 0.5 < manifest.quality.top1 <= 1
    assert manifest.quality.words is None and "demo voice's words only" in manifest.quality.words_note
    manifest.verify(tmp_path / "set")


@pytest.mark.slow
def test_int4_set_speaks(demo, tmp_path):
    manifest = build_cpu_set(demo, tmp_path / "模型 (1)", CpuBuild("int4"))
    assert 0.8 < manifest.quality.top1 < 0.95
    with Engine.load(tmp_path / "模型 (1)") as engine:
        audio = engine.synthesize("the engine is ready", seed=7)
    assert 20 < audio.steps < 120
    assert not audio.truncated


@pytest.mark.slow
def test_building_twice_gives_the_same_files(tiny, tiny_set, tmp_path):
    build_cpu_set(tiny, tmp_path / "again", CpuBuild("fp32", max_batch=3, max_seconds=5))
    first, second = Manifest.load(tiny_set), Manifest.load(tmp_path / "again")
    assert first.files == second.files
