import copy
import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.errors import EngineSetError
from trt_tts.manifest import Manifest, Target
from trt_tts.plan_info import MemoryLine, PlanInfo, ProfileInfo, Verification
from trt_tts.quality import Quality, WordErrors
from trt_tts.selftest import CaseResult

PLAN = PlanInfo(
    onnx_sha256={"gpt.onnx": "7c" * 32, "gpt.weights": "20" * 32},
    profiles=(
        ProfileInfo(
            "prefill", {"rows": ((1, 1, 64), (1, 128, 64), (2, 128, 64)), "span": ((256,), (256,), (491,))}, 11, 0
        ),
        ProfileInfo("decode-256", {"rows": ((1, 1, 64), (3, 1, 64), (3, 1, 64))}, 8_748_032, 512),
    ),
    weight_bytes=9_132_544,
    scratch_bytes=8_748_032,
    products={"layers.0.mlp.down_proj/MatMul": "fp16", "head_code/Gemm": "fp32"},
    kept=("head_code/Gemm",),
    scaled={"layers.1.mlp.down_proj/MatMul": 3},
    int8_layers=None,
    simulated_snr_db=63.2,
    int8_share=0.84,
    calibration="calibrated by percentile, 20 of 20 linears smoothed, on 语料/",
    build_seconds=3.5,
    build_peak_bytes=798_445_568,
)
MEMORY = (MemoryLine("desktop", 734_003_200, None, True), MemoryLine("text_head weights", 73_216, 74_752, False))
RESULTS = (
    CaseResult("gpt", "prefill", "1 x 128 of 256", 63.2, 1, None),
    CaseResult("codec", "window", "7 steps", None, 0, "wav is silent"),
)
QUALITY = Quality("fp32", True, 99, 0.97, 0.002, 24.0, 0.01, 0.1, WordErrors(0.07, 0.06, 0.01, 25), "")
VERIFICATION = Verification(False, "零 results differ", RESULTS, {"fp16": {"decode-256": 0.0123}, "int8": {}})


@pytest.fixture(scope="module")
def manifest(tiny_set):
    loaded = Manifest.load(tiny_set)
    graphs = {**loaded.graphs, "gpt": replace(loaded.graphs["gpt"], plan=PLAN)}
    target = Target("tensorrt_rtx 1.7.1.116", "1.7.1.116", "gtx1650", "7.5", "Linux x86_64", "13.0.96", "580.95.05")
    return replace(
        loaded,
        backend="tensorrt",
        target=target,
        graphs=graphs,
        memory=MEMORY,
        verification=VERIFICATION,
        quality=QUALITY,
    )


def test_a_manifest_with_plans_memory_and_verification_comes_back_as_it_was_saved(manifest, tmp_path):
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path) == manifest


def test_a_set_is_judged_as_what_its_coarsest_linears_are(manifest, tiny_set):
    assert manifest.precision == "fp32" and manifest.gate_precision == "int8"
    assert Manifest.load(tiny_set).gate_precision == "fp32"


def test_a_cpu_set_has_neither_plans_nor_memory(tiny_set):
    loaded = Manifest.load(tiny_set)
    assert loaded.memory == ()
    assert loaded.verification is None
    assert all(graph.plan is None for graph in loaded.graphs.values())


SHAPES = st.lists(st.lists(st.integers(1, 4096), min_size=1, max_size=4).map(tuple), min_size=3, max_size=3).map(tuple)
VERIFICATIONS = st.builds(
    Verification,
    st.booleans(),
    st.text(),
    st.lists(
        st.builds(
            CaseResult,
            *(st.text(max_size=5),) * 3,
            st.none() | st.floats(-100, 200),
            st.integers(0, 99),
            st.none() | st.text(max_size=9),
        ),
        max_size=3,
    ).map(tuple),
    st.dictionaries(
        st.text(max_size=5), st.dictionaries(st.text(max_size=5), st.floats(0, 10), max_size=2), max_size=2
    ),
)


@given(st.dictionaries(st.text(max_size=5), SHAPES, max_size=3), st.integers(0, 1 << 45), VERIFICATIONS)
def test_plans_and_verifications_survive_json(shapes, size, verification):
    plan = replace(PLAN, profiles=(ProfileInfo("p", shapes, size, size),), int8_layers=size)
    assert PlanInfo.from_json(json.loads(json.dumps(asdict(plan)))) == plan
    assert Verification.from_json(json.loads(json.dumps(asdict(verification)))) == verification


DAMAGES = [
    *((("graphs", "gpt", "plan", name), None) for name in asdict(PLAN)),
    *((("graphs", "gpt", "plan", "profiles", 0, name), None) for name in ("name", "shapes", "activation_bytes")),
    *((("memory", 0, name), None) for name in asdict(MEMORY[0])),
    *((("verification", name), None) for name in ("verified", "reason", "results")),
    *((("verification", "results", 1, name), None) for name in asdict(RESULTS[0])),
    (("graphs", "gpt", "plan"), [1]),
    (("graphs", "gpt", "plan"), "gpt.plan"),
    (("graphs", "gpt", "plan", "profiles"), 5),
    (("graphs", "gpt", "plan", "profiles", 0, "shapes", "rows"), [[1], [2]]),
    (("graphs", "gpt", "plan", "profiles", 0, "shapes", "rows"), [1, 2, 3]),
    (("graphs", "gpt", "plan", "unknown"), 1),
    (("memory",), 5),
    (("memory", 0), "desktop"),
    (("memory", 0, "unknown"), 1),
    (("verification",), "verified"),
    (("verification", "results"), 3),
    (("verification", "unknown"), 1),
]


@pytest.mark.parametrize(("path", "value"), DAMAGES, ids=str)
def test_a_damaged_manifest_is_named_with_what_to_do(path, value, manifest, tmp_path):
    manifest.save(tmp_path)
    file = tmp_path / "manifest.json"
    data = json.loads(file.read_text("utf-8"))
    place = data
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(value)
    file.write_text(json.dumps(data), "utf-8")
    with pytest.raises(EngineSetError, match=r"manifest\.json is damaged .*Build the set again"):
        Manifest.load(tmp_path)
