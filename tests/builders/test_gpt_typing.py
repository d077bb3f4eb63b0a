"""How a GPU set's `gpt` is typed, and made again for a comparison."""

import json
import shutil
import tomllib
from dataclasses import replace

import numpy as np
import onnx
import pytest

from tests.conftest import export_by_copying
from trt_tts.builders import gpt_typing, gpu_set
from trt_tts.builders.build_log import MemoryLines
from trt_tts.builders.calibration_data import Calibration, load_calibration
from trt_tts.builders.cards import load_cards
from trt_tts.builders.gpt_typing import CALIBRATION_FILE, CHOSEN_MAP, save_choice, type_again
from trt_tts.builders.gpu_set import GpuBuild, build_gpu_set
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.plan_job import PlanReport
from trt_tts.builders.precision_map import PrecisionMap, load_precision_map
from trt_tts.builders.ranges import record
from trt_tts.builders.samples import feeds_of, forced_feed, speak_samples
from trt_tts.builders.typed_graph import TypedGraph
from trt_tts.cpu.session import open_session
from trt_tts.errors import BuildError, EngineSetError
from trt_tts.flavour import load_flavour
from trt_tts.manifest import Manifest
from trt_tts.quality import GATES

NAMES = ("self_attn.qkv_proj", "self_attn.o_proj", "mlp.gate_up_proj", "mlp.down_proj")
PINNED = "layers.0.mlp.down_proj/MatMul"


@pytest.fixture(scope="module")
def spoken(tiny, tiny_set, tiny_exports):
    return speak_samples(tiny, tiny_set, tiny_exports / "gpt.onnx", most=2)


@pytest.fixture(scope="module")
def calibration(tiny, tiny_exports, spoken):
    """By the largest values, with every linear smoothed a little."""
    peaks = record(tiny_exports / "gpt.onnx", feeds_of("gpt", tiny, spoken, []))
    graph = onnx.load(tiny_exports / "gpt.onnx", load_external_data=False).graph
    inputs = {node.name: node.input[0] for node in graph.node}
    gpt, random = tiny.config.gpt, np.random.default_rng(0)
    linears = [f"layers.{i}.{name}/MatMul" for i in range(gpt.num_hidden_layers) for name in NAMES]
    scales = {node: 1.3 * peaks[inputs[node]] / 127 for node in linears}
    widths = {node: gpt.intermediate_size if "down" in node else gpt.hidden_size for node in linears}
    smoothing = {node: tuple(np.round(random.uniform(0.8, 1.25, width), 4).tolist()) for node, width in widths.items()}
    return Calibration("max", tiny.hashes, scales, dict.fromkeys(linears, 0.01), smoothing, dataset="texts")


@pytest.fixture
def build(tiny, tiny_exports, tmp_path, monkeypatch):
    """Build a set whose plans are empty files; returns its manifest and the simulation of its typed gpt."""
    monkeypatch.setattr(gpu_set, "export_graph", export_by_copying(tiny_exports))
    monkeypatch.setattr(gpt_typing, "export_graph", export_by_copying(tiny_exports))

    def keep(job, log, progress):
        (tmp_path / "set").parent.mkdir(exist_ok=True)
        with open(job.plan, "wb"):
            pass
        if job.graph == "gpt":
            write_simulation(gpu_set.Path(job.onnx), tmp_path / "built.onnx")
        int8 = None if "int8" not in job.graph else 1
        return PlanReport(MemoryLines(0, (1,) * len(job.profiles), 0, 0), 0.1, 1, None, int8)

    monkeypatch.setattr(gpu_set, "run_plan_job", keep)

    def built(precision, **options):
        card = load_cards()["gtx1650"]
        wanted = GpuBuild(precision, card, load_flavour("tensorrt_rtx"), ahead=True, max_seconds=5, **options)
        return build_gpu_set(tiny, tmp_path / "set", wanted)

    return built


def hidden(file, tiny, spoken):
    gpt = tiny.config.gpt
    feed = forced_feed(spoken[0], gpt.num_attention_heads, gpt.num_hidden_layers)
    return open_session(file, 1).run(["hidden"], feed)[0]


@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_set_is_made_again_as_it_was_built(build, tiny, spoken, calibration, tmp_path, precision):
    rules = {"gpt": PrecisionMap(((PINNED, "fp16"),)), "codec": PrecisionMap((("*.head.out/MatMul", "fp16"),))}
    options = {"calibration": calibration, "gate": False} if precision == "int8" else {}
    manifest = build(precision, rules=rules, **options)
    assert manifest.quality is None
    (tmp_path / "work").mkdir()
    found = type_again(tmp_path / "set", Manifest.load(tmp_path / "set"), tiny, tmp_path / "work", lambda stage: None)
    assert np.array_equal(hidden(found, tiny, spoken), hidden(tmp_path / "built.onnx", tiny, spoken))
    saved = load_precision_map(tmp_path / "set" / CHOSEN_MAP, ("gpt", "codec"))
    assert saved["codec"] == rules["codec"] and saved["gpt"].of(PINNED) == "fp16"
    assert (tmp_path / "set" / CALIBRATION_FILE).exists() == (precision == "int8")
    manifest.verify(tmp_path / "set")


def test_a_set_of_which_something_was_changed_cannot_be_made_again(build, tiny, calibration, tmp_path):
    build("int8", calibration=calibration, gate=False)
    file = tmp_path / "set" / CALIBRATION_FILE
    data = json.loads(file.read_text("utf-8"))
    data["scales"][PINNED] *= 2
    file.write_text(json.dumps(data), "utf-8")
    (tmp_path / "work").mkdir()
    with pytest.raises(EngineSetError, match="cannot be made again here"):
        type_again(tmp_path / "set", Manifest.load(tmp_path / "set"), tiny, tmp_path / "work", lambda stage: None)


def test_smoothed_caches_do_not_spoil_the_self_test(build, calibration):
    """Its expected results come from the smoothed graph; from the plain one they would be 10 dB off."""
    manifest = build("int8", calibration=calibration, gate=False)
    assert manifest.graphs["gpt"].plan.simulated_snr_db > 6
    assert manifest.graphs["gpt"].plan.int8_share == 1
    assert manifest.graphs["gpt"].plan.calibration == "calibrated by max, 8 of 8 linears smoothed, on texts"


def test_the_gate_judges_int8_and_its_findings_are_recorded(build, calibration, tmp_path, monkeypatch):
    monkeypatch.setitem(GATES, "int8", replace(GATES["int8"], least_top1=0.5, most_kl=1.0))
    manifest = build("int8", calibration=calibration)
    assert manifest.quality.simulated and 0.5 < manifest.quality.top1 < 1
    chosen = tomllib.loads((tmp_path / "set" / CHOSEN_MAP).read_text("utf-8")).get("gpt", {})
    products = manifest.graphs["gpt"].plan.products
    assert set(chosen) == {node for node in calibration.scales if products[node] != "int8"}


def test_pinned_int8_linears_of_an_fp16_set_are_judged_too(build, calibration, monkeypatch):
    rules = {"gpt": PrecisionMap(((PINNED, "int8"),))}
    manifest = build("fp16", calibration=calibration, rules=rules)
    assert manifest.quality is not None and manifest.gate_precision == "int8"


def test_an_fp16_set_with_int8_linears_that_spoil_the_voice_fails(build, calibration, monkeypatch, tmp_path):
    monkeypatch.setitem(GATES, "int8", replace(GATES["int8"], least_top1=1.1))
    with pytest.raises(BuildError, match="changes this voice too much"):
        build("fp16", calibration=calibration, rules={"gpt": PrecisionMap(((PINNED, "int8"),))})
    assert not (tmp_path / "set").exists()


def test_scales_that_are_twenty_times_too_large_are_caught(build, calibration, tmp_path):
    wrong = replace(calibration, scales={node: 20 * scale for node, scale in calibration.scales.items()})
    with pytest.raises(BuildError, match="INT8 changes this voice too much"):
        build("int8", calibration=wrong)
    assert not (tmp_path / "set").exists()


@pytest.mark.parametrize(
    ("own", "products", "expected"),
    [
        ((), {"a": "int8", "b": "fp16"}, {"b": "fp16"}),
        ((("b", "fp16"), ("*", "int8")), {"a": "int8", "b": "fp16"}, {"*": "int8", "b": "fp16"}),
        ((("x", "fp32"),), {"a": "int8", "b": "int8"}, {"x": "fp32"}),
    ],
)
def test_saved_choice_repeats_the_types(tmp_path, own, products, expected):
    typed = TypedGraph(tmp_path / "gpt.onnx", tmp_path / "source.onnx", None, products, {})
    calibration = Calibration("max", {"config.json": "00"}, dict.fromkeys(products, 0.1), dict.fromkeys(products, 0.1))
    save_choice(tmp_path, {"gpt": PrecisionMap(own)}, calibration, typed, "int8")
    assert tomllib.loads((tmp_path / CHOSEN_MAP).read_text("utf-8"))["gpt"] == expected
    saved = load_precision_map(tmp_path / CHOSEN_MAP, ("gpt",))["gpt"]
    assert {node: saved.of(node) or "int8" for node in products} == products


def test_nothing_is_saved_where_nothing_was_chosen(tmp_path):
    typed = TypedGraph(tmp_path / "gpt.onnx", tmp_path / "source.onnx", None, {"a": "fp16"}, {})
    save_choice(tmp_path, {}, None, typed, "fp16")
    assert list(tmp_path.iterdir()) == []


def test_the_set_holds_the_calibration_it_was_typed_with(build, tiny, calibration, tmp_path):
    build("int8", calibration=calibration, gate=False)
    assert load_calibration(tmp_path / "set" / CALIBRATION_FILE, tiny) == calibration
    shutil.rmtree(tmp_path / "set")
