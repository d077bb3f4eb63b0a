"""E1 to E18: what goes wrong with exports, builds and engines, as far as no card is needed.

Marked `case` elsewhere: E6 (profiles), E8 (a refused shape), E9 (norms), E10 (self-test), E13 (times on the card).
"""

import ast
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import trt_tts
from tests.builders.test_gpu_set import RTX, TENSORRT
from tests.small_graph import HALF, node, write
from trt_tts import Engine, EngineSetError
from trt_tts.builders import gpu_set, plan_worker
from trt_tts.builders.build_log import LogLine, cause_of, fold, read_memory
from trt_tts.builders.export import save_model
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.plan_job import PlanJob, PlanReport
from trt_tts.builders.plan_process import run_plan_job
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.profiles import Profile, ShapeRange
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.errors import BuildError
from trt_tts.manifest import Manifest

ROOT = Path(trt_tts.__file__).parents[1]
ODD = "模型 目录/引擎 (1)"


def builder_says(weights, int8_layers=None):
    memory = read_memory([LogLine("info", f"Total Weights Memory: {weights} bytes")])
    return PlanReport(memory, 1.0, 1, None, int8_layers)


def asked_for(products):
    return gpu_set.TypedGraph(Path("gpt.onnx"), Path("source.onnx"), None, products, {})


def test_e1_weights_of_the_built_engine_are_those_of_fp16(demo_gpu_set, demo_set):
    """By what NVIDIA's builder says of the engine, not by what was asked for."""
    half, full = Manifest.load(demo_gpu_set), Manifest.load(demo_set)
    for name, graph in half.graphs.items():
        stored = sum(full.graphs[name].weight_bytes.values())
        assert 0.45 * stored < graph.plan.weight_bytes < 0.55 * stored, name


def test_e1_an_fp16_graph_that_became_an_fp32_engine_fails_the_build(demo_gpu_set, demo_set):
    info, typed = Manifest.load(demo_gpu_set).graphs["gpt"], asked_for({"a/MatMul": "fp16"})
    built, widened = (sum(Manifest.load(item).graphs["gpt"].weight_bytes.values()) for item in (demo_gpu_set, demo_set))
    gpu_set._require_as_asked(info, typed, builder_says(built), RTX)
    with pytest.raises(BuildError, match=r"stores 18\.\d MB of weights where its graph holds 9\.\d MB"):
        gpu_set._require_as_asked(info, typed, builder_says(widened), RTX)
    with pytest.warns(UserWarning, match="widened"):
        gpu_set._require_as_asked(info, typed, builder_says(widened), TENSORRT)


NAMED = {"get_tensor_name", "get_tensor_dtype", "get_tensor_shape", "set_input_shape", "set_tensor_address"}
REMOVED = {
    "binding_is_input", "build_engine", "execute_async", "execute_async_v2", "get_binding_dtype", "get_binding_index",
    "get_binding_name", "get_binding_shape", "get_profile_shape", "max_batch_size", "max_workspace_size",
    "num_bindings", "set_binding_shape",
}  # fmt: skip


def test_e2_tensors_are_reached_by_name_alone():
    trt = pytest.importorskip("tensorrt_rtx")
    known = {name for kind in (trt.ICudaEngine, trt.IExecutionContext, trt.Builder) for name in dir(kind)}
    assert known >= NAMED and not known & REMOVED, "this TensorRT judges by other lists"
    used = set()
    for folder in ("trt_tts", "builders", "calibration"):
        for file in (ROOT / folder).rglob("*.py"):
            used |= {
                item.attr for item in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(item, ast.Attribute)
            }
    assert used >= NAMED
    assert not used & REMOVED


@pytest.mark.parametrize("name", GRAPHS)
def test_e4_nvidias_parser_takes_every_graph_and_none_holds_what_cards_lack(tiny_exports, tmp_path, name):
    trt = pytest.importorskip("tensorrt_rtx")
    request = TypeRequest("fp16", PrecisionMap(), None, 256, fp32_products=False)
    file = write_typed(name, tiny_exports / f"{name}.onnx", tmp_path, request, ranges={}).file
    model = onnx.load(file, load_external_data=False)
    operators = {item.op_type for item in model.graph.node}
    assert not operators & {"Trilu", "STFT", "DFT", "Loop", "If", "Scan", "Attention", "Xor", "NonZero"}
    logger = trt.Logger(trt.Logger.INTERNAL_ERROR)
    network = trt.Builder(logger).create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    assert parser.parse_from_file(str(file)), [parser.get_error(i).desc() for i in range(parser.num_errors)]
    found = [network.get_input(i).name for i in range(network.num_inputs)]
    assert found == [item.name for item in model.graph.input]


NO_TACTIC = (
    "[optimizer.cpp::computeCosts::4048] Error Code 10: Internal Error (Could not find any implementation for node "
    "{ForeignNode[layers.0.self_attn.qkv_proj/MatMul...norm/Mul]}%s.)"
)
NO_ROOM = [
    "Tactic Device request: 2304MB Available: 1536MB. Device memory is insufficient to use tactic.",
    "Skipping tactic 3 due to insuficient memory on requested size of 2304 detected for tactic 4.",
    "UNSUPPORTED_STATE: Skipping tactic 33 due to insufficient memory on requested size of 629145600 detected for "
    "tactic 0xa5a46bfbd719d757.",
]


@pytest.mark.parametrize("warning", NO_ROOM)
def test_e11_no_implementation_for_want_of_memory_says_memory_and_what_to_lower(warning):
    said = cause_of([LogLine("warning", warning), LogLine("error", NO_TACTIC % "")])
    assert "ran out of memory" in said and "--max-batch" in said and "--max-seconds" in said


def test_e11_so_it_does_where_the_error_itself_tells():
    said = cause_of([LogLine("error", NO_TACTIC % " due to insufficient workspace. See verbose log")])
    assert "ran out of memory" in said and "--max-batch" in said


def test_e11_no_implementation_with_room_enough_is_no_want_of_memory():
    said = cause_of([LogLine("warning", "Skipping tactic 0x1 due to exception Cask"), LogLine("error", NO_TACTIC % "")])
    assert "memory" not in said and "Could not find any implementation" in said


def test_e12_skipped_tactics_are_one_line_that_calms():
    lines = [LogLine("warning", text) for text in NO_ROOM for _ in range(50)]
    found = list(fold([LogLine("info", "Detected 18 inputs"), *lines, LogLine("info", "Engine generation completed")]))
    assert found[:2] == ["info: Detected 18 inputs", "info: Engine generation completed"]
    (line,) = found[2:]
    assert line.startswith("100 tactics were skipped") and "no error" in line
    assert not any(word in line.lower() for word in ("warning", "failed", "insufficient"))


def inspected(monkeypatch, *layers):
    """What the worker counts where the engine inspector says this of the layers."""
    monkeypatch.setattr(plan_worker, "emit", lambda *_, **__: None)
    inspector = SimpleNamespace(get_engine_information=lambda form: json.dumps({"Layers": layers}))
    engine = SimpleNamespace(create_engine_inspector=lambda: inspector)
    runtime = SimpleNamespace(deserialize_cuda_engine=lambda plan: engine)
    module = SimpleNamespace(Runtime=lambda logger: runtime, LayerInformationFormat=SimpleNamespace(JSON=1))
    return plan_worker._int8_layers(replace(TENSORRT, module=module), None, b"plan")


def layer(form="N/A due to dynamic shapes", kernel="", weights=None):
    """As TensorRT 10 tells of a layer; with dynamic shapes it does not tell the tensors' formats."""
    told = {"Name": "layers.0/MatMul", "LayerType": "gemm", "Inputs": [{"Name": "x", "Format/Datatype": form}]}
    return (
        told | {"Outputs": [], "TacticName": kernel} | ({"Weights": {"Type": weights, "Count": 9}} if weights else {})
    )


@pytest.mark.parametrize(
    ("one", "count"),
    [
        (layer("Int8"), 1),
        (layer("Thirty-two wide channel vectorized row major Int8 format"), 1),
        (layer(weights="Int8"), 1),
        (layer(kernel="sm75_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize128x128x64"), 1),
        (layer(kernel="turing_int8_i8816gemm_int8_128x128_ldg16_stages_2"), 1),
        (layer("Half"), 0),
        (layer(weights="Half"), 0),
        (layer(kernel="sm75_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64"), 0),
        (layer(), None),
    ],
)
def test_e15_int8_layers_of_the_built_engine_are_counted_or_unknown(monkeypatch, one, count):
    assert inspected(monkeypatch, one) == count
    if count is not None:
        assert inspected(monkeypatch, one, layer("Float"), layer(), one) == 2 * count


def test_e15_no_int8_layer_in_an_int8_engine_fails_the_build(demo_gpu_set):
    info, typed = Manifest.load(demo_gpu_set).graphs["gpt"], asked_for({"a/MatMul": "int8", "b/MatMul": "fp16"})
    gpu_set._require_as_asked(info, typed, builder_says(9_000_000, int8_layers=1), TENSORRT)
    with pytest.raises(BuildError, match="to hold 1 INT8 layers and the plan has none"):
        gpu_set._require_as_asked(info, typed, builder_says(9_000_000, int8_layers=0), TENSORRT)


def linear_weights(checkpoint):
    """How many numbers the layers' linears hold."""
    return sum(item.size for name, item in checkpoint.tensors["gpt"].items() if item.ndim == 2)


def test_e16_weights_folded_back_to_float_fail_the_build(demo, demo_gpu_set):
    """The graph holds INT8 weights with a DequantizeLinear each; the engine takes the room of FP16 ones."""
    info, count = Manifest.load(demo_gpu_set).graphs["gpt"], linear_weights(demo)
    half = info.weight_bytes["float16"]
    quantized = replace(info, weight_bytes=info.weight_bytes | {"float16": half - 2 * count, "int8": count})
    typed = asked_for({"a/MatMul": "int8"})
    gpu_set._require_as_asked(quantized, typed, builder_says(half - count), RTX)
    with pytest.raises(BuildError, match="kept some twice or widened them"):
        gpu_set._require_as_asked(quantized, typed, builder_says(half), RTX)


def test_e16_a_cpu_set_holds_its_linears_in_a_byte_each(demo, demo_int8_set, demo_set):
    graph = Manifest.load(demo_int8_set).graphs["gpt"]
    assert graph.weight_bytes["uint8"] == linear_weights(demo)
    saved = (demo_set / "gpt.weights").stat().st_size - (demo_int8_set / "gpt.weights").stat().st_size
    assert 0.9 * 3 * linear_weights(demo) < saved < 3 * linear_weights(demo)


def test_e17_weights_are_those_beside_the_graph_wherever_the_set_and_the_program_are(tiny_set, tmp_path, monkeypatch):
    """In the current folder lie weights of the right name and size, full of zeros."""
    with Engine.load(tiny_set) as engine:
        wanted = engine.synthesize("hi", seed=1, max_steps=6).samples
    here = tmp_path / "here"
    here.mkdir()
    for file in tiny_set.glob("*.weights"):
        (here / file.name).write_bytes(bytes(file.stat().st_size))
    monkeypatch.chdir(here)
    moved = shutil.move(shutil.copytree(tiny_set, tmp_path / "set"), tmp_path / "moved")
    for path in (Path(moved), Path("..") / "moved"):
        with Engine.load(path) as engine:
            assert np.array_equal(engine.synthesize("hi", seed=1, max_steps=6).samples, wanted)
    (Path(moved) / "gpt.weights").unlink()
    with pytest.raises(EngineSetError, match=r"lacks gpt\.weights"):
        Engine.load(moved)


@pytest.fixture
def small_job(tmp_path):
    """A plan of one FP16 product to build from and in an oddly named folder; takes NVIDIA's builder two seconds."""
    pytest.importorskip("tensorrt_rtx")
    folder = tmp_path / ODD
    (folder / "typed").mkdir(parents=True)
    shapes = {"x": (HALF, ["B", 64])}, {"y": (HALF, ["B", 64])}
    source = write(folder, [node("m/MatMul", "x w", "y")], *shapes, {"w": np.ones((64, 64), np.float16)}, name="codec")
    file = save_model(onnx.load(source), folder / "typed", "codec")
    profile = Profile("p", {"x": ShapeRange((1, 64), (2, 64), (4, 64))})
    return PlanJob("codec", str(file), str(folder / "codec.plan"), "tensorrt_rtx", "7.5", (profile,), 1 << 28, None)


def test_e17_a_missing_data_file_is_named_by_the_build(small_job, monkeypatch):
    file = Path(small_job.onnx).with_name("codec.weights")
    assert file.stat().st_size >= 2 * 64 * 64
    here = file.parents[1] / "here"
    here.mkdir()
    file.rename(here / file.name)
    monkeypatch.chdir(here)
    with pytest.raises(BuildError, match=r"codec\.weights"):
        run_plan_job(small_job, file.parents[1] / "codec.log", lambda stage: None)
    assert not Path(small_job.plan).exists()


def test_e18_a_plan_is_built_in_a_folder_with_any_name(small_job, monkeypatch):
    folder = Path(small_job.plan).parent
    (folder / "here").mkdir()
    monkeypatch.chdir(folder / "here")
    report = run_plan_job(small_job, folder / "codec.log", lambda stage: None)
    assert report.memory.weights >= 2 * 64 * 64
    assert Path(small_job.plan).stat().st_size > 0 and (folder / "codec.log").stat().st_size > 0


def test_e18_a_set_speaks_and_its_sound_is_saved_under_a_long_odd_path(tiny_set, tmp_path):
    """Longer than the 260 characters that Windows takes by default."""
    folder = tmp_path.joinpath(ODD, *[f"很长的 名字 ({i}) " + "x" * 40 for i in range(5)])
    shutil.copytree(tiny_set, folder)
    assert len(str(folder)) > 260
    with Engine.load(folder) as engine:
        sound = engine.synthesize("hi", seed=1, max_steps=4)
    assert sound.save(folder / "声音 (1).wav").stat().st_size == 44 + 2 * sound.samples.size
