"""What NVIDIA's builder makes of the published sizes (random weights, compute capability 7.5). No GPU is needed."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.random_checkpoint import write_random_checkpoint
from tests.builders.test_gpu_set import placeholder_calibration
from trt_tts.builders.checkpoint import load_checkpoint
from trt_tts.builders.export import export_graph
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.plan_job import PlanJob
from trt_tts.builders.plan_process import run_plan_job
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.profiles import profiles_of
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.manifest import Limits, Manifest

pytestmark = pytest.mark.slow
MB = 1e6


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    return load_checkpoint(write_random_checkpoint(tmp_path_factory.mktemp("published")))


@pytest.fixture(scope="module")
def exported(published, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported")
    export_graph(gpt_graph(published, exact_cache=False), folder)
    return folder / "gpt.onnx"


@pytest.fixture(scope="module")
def half_set(published, tmp_path_factory):
    """A complete set, and the largest process behind it."""
    folder = tmp_path_factory.mktemp("sets") / "gtx1650-fp16"
    command = "from trt_tts.cli import main; main()"
    arguments = ["build", "--precision", "fp16", "--max-batch", "4", "--checkpoint", published.path, "-o", folder]
    subprocess.run([sys.executable, "-c", command, *map(str, arguments)], check=True, capture_output=True)
    return Manifest.load(folder), _largest_child()


def _largest_child() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss


def test_set_is_built_in_three_and_a_half_gigabytes(half_set):
    assert half_set[1] < 3.5e9


def test_half_set_needs_what_fits_a_small_card(half_set):
    manifest, _ = half_set
    profiles = {item.name: item.activation_bytes for item in manifest.graphs["gpt"].plan.profiles}
    assert profiles["prefill"] <= 32 * MB
    assert max(size for name, size in profiles.items() if name.startswith("decode")) <= 26 * MB
    assert manifest.graphs["gpt"].plan.weight_bytes <= 390 * MB
    assert manifest.graphs["codec"].plan.weight_bytes <= 84 * MB
    assert engine_bytes(manifest, rows=4) <= 1.04e9
    assert engine_bytes(manifest, rows=1) <= 0.66e9


def engine_bytes(manifest, rows):
    """Weights, caches, activations and I/O of the resident graphs; of a smaller batch only the caches shrink here."""
    lines = {line.part: line.built or line.predicted for line in manifest.memory if line.resident}
    kept = sum(size for part, size in lines.items() if part not in ("desktop", "CUDA context", "reserve", "KV cache"))
    return kept + rows * lines["KV cache"] / manifest.limits.max_batch


def test_prediction_holds(half_set):
    for line in half_set[0].memory:
        if line.built is not None:
            tolerance = 0.2 if line.part == "activations" else 0.05
            assert line.predicted == pytest.approx(line.built, rel=tolerance), line.part


def build_gpt(published, exported: Path, folder: Path, limits: Limits, precision: str):
    calibration = placeholder_calibration(published.config) if precision == "int8" else None
    wanted = TypeRequest(precision, PrecisionMap(), calibration, limits.capacity, fp32_products=False)
    typed = write_typed("gpt", exported, folder, wanted, ranges={})
    profiles = profiles_of("gpt", published.config, limits)
    plan = folder / "gpt.plan"
    job = PlanJob("gpt", str(typed.file), str(plan), "tensorrt_rtx", "7.5", profiles, 3 << 30, timing_cache=None)
    return run_plan_job(job, folder / "gpt.log", lambda stage: None).memory


def test_batch_of_one_stores_no_weight_twice(published, exported, tmp_path):
    memory = build_gpt(published, exported, tmp_path, Limits(1, 2048, 128), "fp16")
    assert memory.weights <= 390 * MB
    assert max(memory.activations) <= 18 * MB


def test_int8_halves_the_weights_and_leaves_the_activations(published, exported, half_set, tmp_path):
    memory = build_gpt(published, exported, tmp_path, Limits(4, 2048, 128), "int8")
    assert memory.weights <= 203 * MB
    assert memory.activations[0] <= 32 * MB and max(memory.activations[1:]) <= 26 * MB
    half = [item.activation_bytes for item in half_set[0].graphs["gpt"].plan.profiles]
    assert memory.activations == pytest.approx(half, rel=0.1)
    one_row, codec, inputs_and_outputs = published.config.gpt.kv_bytes_per_position // 2 * 2048, 84 * MB, 3 * MB
    assert memory.weights + one_row + codec + max(memory.activations) + inputs_and_outputs <= 0.47e9
