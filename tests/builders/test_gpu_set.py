import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from tests.conftest import export_by_copying
from trt_tts.builders import gpu_set
from trt_tts.builders.build_log import MemoryLines
from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.cards import load_cards
from trt_tts.builders.gpu_set import GpuBuild, build_gpu_set
from trt_tts.builders.plan_job import PlanJob, PlanReport
from trt_tts.builders.plan_process import run_plan_job
from trt_tts.builders.profiles import profiles_of
from trt_tts.errors import BuildError, CapacityError, EngineSetError, UsageError
from trt_tts.flavour import Flavour, load_flavour
from trt_tts.manifest import Manifest
from trt_tts.selftest import load_cases

CARD = load_cards()["gtx1650"]
RTX, TENSORRT = Flavour("tensorrt_rtx", "1.7", None), Flavour("tensorrt", "10.16", None)
LINEARS = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")


def request(precision="fp16", **options):
    return GpuBuild(precision, CARD, load_flavour("tensorrt_rtx"), ahead=True, **options)


def placeholder_calibration(config):
    """Scales that are right for nothing: they only give the graph its form."""
    layers = range(config.gpt.num_hidden_layers)
    scales = {f"layers.{i}.{name}/MatMul": 0.05 for i in layers for name in LINEARS}
    return Calibration("placeholder", {}, scales, dict.fromkeys(scales, 0.01))


@pytest.mark.case("E1")
def test_set_holds_plans_for_the_card_and_says_that_no_card_has_run_them(demo_gpu_set):
    manifest = Manifest.load(demo_gpu_set)
    manifest.verify(demo_gpu_set)
    assert manifest.backend == "tensorrt"
    assert manifest.target.runtime.startswith("tensorrt_rtx 1.")
    assert manifest.target.compute_capability == "7.5"
    assert set(manifest.graphs) == {"gpt", "codec", "codec_vq", "text_head", "voice_encoder"}
    for name, graph in manifest.graphs.items():
        assert (demo_gpu_set / f"{name}.plan").stat().st_size > 1e6
        assert graph.plan.simulated_snr_db is None or graph.plan.simulated_snr_db > 35
        assert set(graph.plan.products.values()) == {"fp16"}
        assert all(len(digest) == 64 for digest in graph.plan.onnx_sha256.values())
    assert not manifest.verification.verified
    assert "not here" in manifest.verification.reason
    assert not list(demo_gpu_set.glob("*.onnx"))
    assert not [path for path in demo_gpu_set.iterdir() if path.is_dir()]


def test_predicted_and_built_memory_agree(demo_gpu_set):
    lines = {line.part: line for line in Manifest.load(demo_gpu_set).memory}
    for name in ("gpt weights", "codec weights", "KV cache"):
        assert lines[name].predicted == pytest.approx(lines[name].built, rel=0.05)
    assert lines["activations"].predicted == pytest.approx(lines["activations"].built, rel=0.2)


def test_profiles_report_their_own_activations(demo_gpu_set):
    profiles = {item.name: item.activation_bytes for item in Manifest.load(demo_gpu_set).graphs["gpt"].plan.profiles}
    assert list(profiles) == ["prefill", "decode-256", "decode-512", "decode-1024", "decode-2048"]
    decodes = list(profiles.values())[1:]
    assert decodes == sorted(decodes) and decodes[0] > 0


def test_self_test_covers_every_graph_and_every_profile(demo_gpu_set):
    manifest = Manifest.load(demo_gpu_set)
    cases = load_cases(demo_gpu_set)
    covered = {(case.graph, case.profile) for case in cases}
    assert covered == {(name, item.name) for name, graph in manifest.graphs.items() for item in graph.plan.profiles}
    assert max(len(case.calls[0]["start"]) for case in cases if case.graph == "gpt") == 4
    assert all(np.isfinite(value).all() for case in cases for found in case.expected for value in found.values())


def test_log_is_folded_and_names_the_memory(demo_gpu_set):
    log = (demo_gpu_set / "gpt.log").read_text("utf-8")
    assert "Total Weights Memory" in log
    assert "verbose:" not in log
    assert len(log) < 20_000


@pytest.mark.parametrize("damage", ["empty", "truncated", "changed", "missing"])
def test_damaged_plan_is_refused_with_both_sides(demo_gpu_set, tmp_path, damage):
    folder = shutil.copytree(demo_gpu_set, tmp_path / "set")
    plan = folder / "codec.plan"
    data = plan.read_bytes()
    if damage == "missing":
        plan.unlink()
    else:
        plan.write_bytes({"empty": b"", "truncated": data[:-1], "changed": data[:-1] + b"\0"}[damage])
    with pytest.raises(EngineSetError, match=r"codec\.plan") as error:
        Manifest.load(folder).verify(folder)
    if damage in ("empty", "truncated"):
        assert str(len(data)) in str(error.value)
    assert "rebuild" in str(error.value)


def test_damaged_self_test_is_refused(demo_gpu_set, tmp_path):
    folder = shutil.copytree(demo_gpu_set, tmp_path / "set")
    (folder / "selftest.npz").write_bytes(b"nothing")
    with pytest.raises(EngineSetError, match="selftest"):
        load_cases(folder)


def test_too_large_for_the_card_is_found_before_anything_is_written(demo, tmp_path):
    small = replace(CARD, memory_mib=1200.0)
    with pytest.raises(CapacityError, match="at --max-batch 64 needs"):
        build_gpu_set(demo, tmp_path / "set", replace(request(max_batch=64), card=small))
    assert list(tmp_path.iterdir()) == []


def test_fp32_for_turing_with_rtx_is_refused_with_the_reason():
    with pytest.raises(UsageError, match=r"FP32 matrix product for compute capability 7\.5"):
        request("fp32")
    GpuBuild("fp32", load_cards()["rtx3060"], load_flavour("tensorrt_rtx"), ahead=True)


def test_int8_without_calibration_is_refused_with_the_command():
    with pytest.raises(UsageError, match="trt-tts calibrate"):
        request("int8")


def test_builders_refusal_of_an_fp32_product_reaches_the_user_in_words(tiny, tiny_set, tmp_path):
    profiles = profiles_of("codec", tiny.config, Manifest.load(tiny_set).limits)
    plan = tmp_path / "codec.plan"
    job = PlanJob(
        "codec", str(tiny_set / "codec.onnx"), str(plan), "tensorrt_rtx", "7.5", profiles, 1 << 30, timing_cache=None
    )
    with pytest.raises(BuildError, match=r"Turing \(SM75\) cannot run .*/MatMul: FP32 GEMM is not supported.* fp16"):
        run_plan_job(job, tmp_path / "codec.log", lambda stage: None)
    assert not plan.exists()


def report(weights):
    return PlanReport(MemoryLines(weights, (1,), (), 0), 1.0, 1, None, None)


@pytest.mark.case("E16")
def test_weights_stored_twice_fail_the_build(demo_gpu_set, tmp_path):
    info = Manifest.load(demo_gpu_set).graphs["gpt"]
    typed = gpu_set.TypedGraph(tmp_path / "gpt.onnx", tmp_path / "source.onnx", None, {}, {})
    gpu_set._require_as_asked(info, typed, report(sum(info.weight_bytes.values())), RTX)
    twice = report(2 * sum(info.weight_bytes.values()))
    with pytest.raises(BuildError, match="twice"):
        gpu_set._require_as_asked(info, typed, twice, RTX)
    with pytest.warns(UserWarning, match="twice"):
        gpu_set._require_as_asked(info, typed, twice, TENSORRT)


def test_interrupted_build_leaves_nothing(tiny, tiny_exports, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_set, "export_graph", export_by_copying(tiny_exports))

    def interrupt(stage):
        if stage.startswith("building gpt"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_gpu_set(tiny, tmp_path / "set", request(max_seconds=5), progress=interrupt)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_graph_that_types_ruin_is_found_before_it_is_built(tiny, tiny_exports, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_set, "export_graph", export_by_copying(tiny_exports))
    monkeypatch.setattr(gpu_set, "run_plan_job", lambda *_: pytest.fail("must not get this far"))
    monkeypatch.setattr(gpu_set, "execute_on_cpu", lambda case, *_: tuple(_zeros(item) for item in case.expected))
    with pytest.raises(BuildError, match="simulated on the CPU"):
        build_gpu_set(tiny, tmp_path / "set", request(max_seconds=5))
    assert list(tmp_path.iterdir()) == []


def _zeros(feed):
    return {name: np.zeros_like(value) for name, value in feed.items()}


def test_manifest_is_plain_json(demo_gpu_set):
    text = (demo_gpu_set / "manifest.json").read_text("utf-8")
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
