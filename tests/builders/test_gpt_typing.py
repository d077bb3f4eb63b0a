"""How a GPU set's `gpt` is typed, and made again for a comparison."""

import json
import shutil
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.conftest import export_by_copying
from trt_tts.builders import gate, gpt_typing, gpu_set
from trt_tts.builders.build_log import MemoryLines
from trt_tts.builders.calibration_data import Calibration, load_calibration
from trt_tts.builders.cards import load_cards
from trt_tts.builders.gpt_typing import CALIBRATION_FILE, CHOSEN_MAP, save_choice, type_again, type_gpt
from trt_tts.builders.gpu_set import GpuBuild, build_gpu_set
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.plan_job import PlanReport
from trt_tts.builders.precision_map import PrecisionMap, load_precision_map
from trt_tts.builders.ranges import record
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import feeds_of, forced_feed, speak_samples
from trt_tts.builders.typed_graph import TypedGraph, TypeRequest
from trt_tts.cpu.session import open_session
from trt_tts.errors import EngineSetError, QualityError
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


@pytest.fixture(autouse=True)
def few_sentences(monkeypatch):
    monkeypatch.setattr(gate, "MOST_TEXTS", 3)
    monkeypatch.setattr(gate, "STEPS", 64)


NO_RULES = PrecisionMap()
RULES = {"gpt": PrecisionMap(((PINNED, "fp16"),)), "codec": PrecisionMap((("*.head.out/MatMul", "fp16"),))}


def build(precision, checkpoint, exports, folder, **options):
    """Build a set whose plans are empty files, and keep a simulation of its typed gpt beside it."""

    def keep(job, log, progress):
        Path(job.plan).touch()
        if job.graph == "gpt":
            write_simulation(Path(job.onnx), folder / "built.onnx")
        return PlanReport(MemoryLines(0, (1,) * len(job.profiles), (), 0), 0.1, 1, None, None)

    card = load_cards()["gtx1650"]
    wanted = GpuBuild(precision, card, load_flavour("tensorrt_rtx"), ahead=True, max_seconds=5, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_set, "export_graph", export_by_copying(exports))
        patch.setattr(gpu_set, "run_plan_job", keep)
        return build_gpu_set(checkpoint, folder / "set", wanted)


@pytest.fixture(scope="module")
def int8_set(tiny, tiny_exports, calibration, tmp_path_factory):
    folder = tmp_path_factory.mktemp("int8")
    build("int8", tiny, tiny_exports, folder, rules=RULES, calibration=calibration, gate=False)
    return folder / "set"


@pytest.fixture
def again(tiny, tiny_exports, tmp_path, monkeypatch):
    """Make the typed gpt of a set again."""
    monkeypatch.setattr(gpt_typing, "export_graph", export_by_copying(tiny_exports))
    (tmp_path / "work").mkdir()
    return lambda folder: type_again(folder, Manifest.load(folder), tiny, tmp_path / "work", lambda stage: None)


def hidden(file, tiny, spoken):
    gpt = tiny.config.gpt
    feed = forced_feed(spoken[0], gpt.num_attention_heads, gpt.num_hidden_layers)
    return open_session(file, 1).run(["hidden"], feed)[0]


@pytest.mark.slow
def test_an_int8_set_is_made_again_as_it_was_built(int8_set, again, tiny, spoken):
    found = again(int8_set)
    assert np.array_equal(hidden(found, tiny, spoken), hidden(int8_set.parent / "built.onnx", tiny, spoken))


@pytest.mark.slow
def test_an_fp16_set_is_made_again_as_it_was_built(again, tiny, tiny_exports, spoken, tmp_path):
    build("fp16", tiny, tiny_exports, tmp_path, rules=RULES)
    found = again(tmp_path / "set")
    assert np.array_equal(hidden(found, tiny, spoken), hidden(tmp_path / "built.onnx", tiny, spoken))
    assert not (tmp_path / "set" / CALIBRATION_FILE).exists()


@pytest.mark.slow
def test_a_set_holds_what_it_was_typed_with(int8_set, tiny, calibration):
    saved = load_precision_map(int8_set / CHOSEN_MAP, ("gpt", "codec"))
    assert saved["codec"] == RULES["codec"] and saved["gpt"].of(PINNED) == "fp16"
    assert load_calibration(int8_set / CALIBRATION_FILE, tiny) == calibration
    manifest = Manifest.load(int8_set)
    manifest.verify(int8_set)
    assert manifest.quality is None, "it was built without the gate"
    assert manifest.graphs["gpt"].plan.calibration == "calibrated by max, 8 of 8 linears smoothed, on texts"
    assert 0.5 < manifest.graphs["gpt"].plan.int8_share < 1


@pytest.mark.slow
def test_smoothed_caches_do_not_spoil_the_self_test(int8_set):
    """Its expected results are those of the smoothed graph; the plain one reads other values from the same caches."""
    assert Manifest.load(int8_set).graphs["gpt"].plan.simulated_snr_db > 10


@pytest.mark.slow
def test_a_set_of_which_something_was_changed_cannot_be_made_again(int8_set, again, tmp_path):
    folder = shutil.copytree(int8_set, tmp_path / "changed")
    data = json.loads((folder / CALIBRATION_FILE).read_text("utf-8"))
    data["scales"]["layers.1.mlp.down_proj/MatMul"] *= 2
    (folder / CALIBRATION_FILE).write_text(json.dumps(data), "utf-8")
    with pytest.raises(EngineSetError, match="cannot be made again here"):
        again(folder)


@pytest.fixture
def type_it(tiny, tiny_set, tiny_exports, spoken, calibration, tmp_path):
    def typed(precision, rules=NO_RULES, scales=1.0, gate=True):
        scaled = replace(calibration, scales={node: scales * scale for node, scale in calibration.scales.items()})
        request = TypeRequest(precision, rules, scaled, 256, fp32_products=False)
        exact, codec = tiny_exports / "gpt.onnx", tiny_exports / "codec.onnx"
        reference = Reference(tiny, tiny.hashes, tiny_set, exact, codec)
        feeds = feeds_of("gpt", tiny, spoken, [])
        return type_gpt(reference, tmp_path, request, feeds, gate, lambda stage: None)

    return typed


LENIENT = replace(GATES["int8"], least_top1=0.5, most_kl=1.0)


@pytest.mark.slow
def test_int8_is_judged_and_the_findings_come_back(type_it, monkeypatch):
    monkeypatch.setitem(GATES, "int8", LENIENT)
    typed, found = type_it("int8")
    assert typed.int8
    assert found.simulated and 0.5 < found.top1 < 1
    assert found.words is None and "demo voice's words only" in found.words_note


@pytest.mark.slow
def test_pinned_int8_linears_of_an_fp16_set_are_judged_too(type_it, monkeypatch):
    monkeypatch.setitem(GATES, "int8", LENIENT)
    typed, found = type_it("fp16", PrecisionMap(((PINNED, "int8"),)))
    assert typed.int8 == (PINNED,)
    assert found.top1 < 1
    monkeypatch.setitem(GATES, "int8", replace(LENIENT, least_top1=1.1))
    with pytest.raises(QualityError, match="changes this voice too much") as error:
        type_it("fp16", PrecisionMap(((PINNED, "int8"),)))
    assert error.value.found == found and error.value.precision == "int8"


@pytest.mark.slow
def test_without_int8_or_gate_nothing_is_judged(type_it):
    assert type_it("fp16")[1] is None
    assert type_it("int8", gate=False)[1] is None


@pytest.mark.slow
def test_scales_that_are_twenty_times_too_large_are_caught(type_it):
    with pytest.raises(QualityError, match="int8 changes this voice too much"):
        type_it("int8", scales=20)


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
