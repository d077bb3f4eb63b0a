"""Shared fixtures: checkpoints and engine sets are made once per run."""

import os
import shutil
from pathlib import Path

import hypothesis
import onnx
import pytest

from tests.cuda_emulator.control import Emulator
from tests.cuda_emulator.environment import EMULATED
from trt_tts import Engine
from trt_tts.builders import cpu_set, gpu_set
from trt_tts.builders.cards import choose_card, load_cards
from trt_tts.builders.checkpoint import Checkpoint, load_checkpoint
from trt_tts.builders.cpu_set import CpuBuild, build_cpu_set
from trt_tts.builders.export import ExportReport, export_graph, graph_files
from trt_tts.builders.gpu_set import GpuBuild, build_gpu_set
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.graphs.graph import Graph
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.cuda.libcuda import library
from trt_tts.demo import demo_checkpoint
from trt_tts.errors import MissingDependencyError
from trt_tts.flavour import load_flavour

REFERENCE = Path(__file__).parent / "reference"

# CI repeats the same examples, so that it judges the change; runs by hand go on searching.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None)
hypothesis.settings.register_profile("search", deadline=None)
hypothesis.settings.load_profile("ci" if os.environ.get("TRT_TTS_CI") else "search")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Under TRT_TTS_CI a skip is a failure, except for tests that need a GPU; those never skip on the emulated one."""
    report = yield
    strict = EMULATED if item.get_closest_marker("gpu") else "TRT_TTS_CI"
    if report.skipped and os.environ.get(strict):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped under {strict}: {call.excinfo and call.excinfo.value}"
    return report


@pytest.fixture(autouse=True)
def _no_user_settings(monkeypatch, tmp_path_factory):
    """Tests see neither the user's environment nor a fetched checkpoint, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("TRT_TTS_CHECKPOINT", "TRT_TTS_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    for kind in ("DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path_factory.getbasetemp() / "no-data"))


@pytest.fixture(autouse=True)
def _a_driver_for_gpu_tests(request):
    """With `-m gpu` on a machine without an NVIDIA driver, say that instead of failing test by test."""
    if request.node.get_closest_marker("gpu"):
        try:
            library()
        except MissingDependencyError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="session")
def tiny() -> Checkpoint:
    return load_checkpoint(REFERENCE / "tiny")


@pytest.fixture(scope="session")
def demo() -> Checkpoint:
    return load_checkpoint(demo_checkpoint())


def _build(tmp_path_factory, checkpoint: Checkpoint, precision: str, exports: Path | None = None, **limits) -> Path:
    """Build a set; with TRT_TTS_TEST_SETS in that folder, where a second test run of the same sources finds it."""
    folder = Path(os.environ.get("TRT_TTS_TEST_SETS") or tmp_path_factory.mktemp("sets"))
    target = folder / f"{checkpoint.name}-{precision}"
    if not target.exists():
        with pytest.MonkeyPatch.context() as patch:
            if exports is not None:
                patch.setattr(cpu_set, "export_graph", export_by_copying(exports))
            build_cpu_set(checkpoint, target, CpuBuild(precision, **limits))
    return target


def export_by_copying(exports: Path):
    """Stands for `export_graph`: takes the graphs of an FP32 set, which were exported before.

    The form of gpt with a fixed capacity is in none, and is exported.
    """

    def copy(graph: Graph, target: Path) -> ExportReport:
        fixed = graph.name == "gpt" and "C" in graph.dynamic["k_0"].values()
        if fixed and "C" not in _dims(exports / "gpt.onnx"):
            return export_graph(graph, target)
        for file in graph_files(exports, graph.name):
            shutil.copy(file, target)
        return ExportReport(graph.name, 0, 0, 0.0, 0)

    return copy


def _dims(file: Path) -> set[str]:
    inputs = onnx.load(file, load_external_data=False).graph.input
    return {dim.dim_param for item in inputs for dim in item.type.tensor_type.shape.dim}


@pytest.fixture(scope="session")
def tiny_set(tmp_path_factory, tiny) -> Path:
    return _build(tmp_path_factory, tiny, "fp32", max_batch=3, max_seconds=5)


@pytest.fixture(scope="session")
def tiny_exports(tmp_path_factory, tiny, tiny_set) -> Path:
    """FP32 graphs as a build for a GPU exports them; all but gpt are those of the CPU set."""
    folder = tmp_path_factory.mktemp("exports")
    for name in GRAPHS:
        for file in graph_files(tiny_set, name):
            shutil.copy(file, folder)
    export_graph(gpt_graph(tiny, exact_cache=False), folder)
    return folder


@pytest.fixture(scope="session")
def demo_set(tmp_path_factory, demo) -> Path:
    return _build(tmp_path_factory, demo, "fp32", max_batch=4)


@pytest.fixture(scope="session")
def demo_int8_set(tmp_path_factory, demo, demo_set) -> Path:
    return _build(tmp_path_factory, demo, "int8", exports=demo_set, max_batch=4)


@pytest.fixture(scope="session")
def demo_gpu_set(tmp_path_factory, demo, demo_set) -> Path:
    """Built by NVIDIA's real builder, ahead of time for a GTX 1650."""
    folder = Path(os.environ.get("TRT_TTS_TEST_SETS") or tmp_path_factory.mktemp("sets"))
    target = folder / "demo-gtx1650-fp16"
    if not target.exists():
        build = GpuBuild("fp16", load_cards()["gtx1650"], load_flavour("tensorrt_rtx"), ahead=True, max_batch=4)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu_set, "export_graph", export_by_copying(demo_set))
            build_gpu_set(demo, target, build)
    return target


@pytest.fixture(scope="session")
def engine(demo_set):
    with Engine.load(demo_set) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def tiny_engine(tiny_set):
    """Of random weights: it knows common Chinese characters."""
    with Engine.load(tiny_set) as loaded:
        yield loaded


@pytest.fixture(scope="session")
def int8_engine(demo_int8_set):
    with Engine.load(demo_int8_set) as loaded:
        yield loaded


def build_with_tensorrt(tmp_path_factory, checkpoint: Checkpoint, precision: str, exports: Path, **limits) -> Path:
    """A set for the GPU here, and by the TensorRT here; kept as `_build` keeps sets."""
    pytest.importorskip("tensorrt", reason="TensorRT is not installed")
    folder = Path(os.environ.get("TRT_TTS_TEST_SETS") or tmp_path_factory.mktemp("sets"))
    kind = "emulated" if os.environ.get(EMULATED) else "gpu"
    target = folder / f"{checkpoint.name}-{kind}-{precision}"
    if not target.exists():
        build = GpuBuild(precision, choose_card("auto").card, load_flavour("tensorrt"), ahead=False, **limits)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(gpu_set, "export_graph", export_by_copying(exports))
            build_gpu_set(checkpoint, target, build)
    return target


@pytest.fixture(scope="session")
def tiny_trt_set(tmp_path_factory, tiny, tiny_set) -> Path:
    return build_with_tensorrt(tmp_path_factory, tiny, "fp32", tiny_set, max_batch=3, max_seconds=5)


@pytest.fixture
def emulator():
    """Steers the emulated GPU; tests that use it are for no other."""
    if not os.environ.get(EMULATED):
        pytest.skip("only the emulated GPU can be steered")
    found = Emulator()
    yield found
    found.stop_failing()
