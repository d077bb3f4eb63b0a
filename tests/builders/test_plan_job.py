import json

from hypothesis import given
from hypothesis import strategies as st

from trt_tts.builders.build_log import MemoryLines
from trt_tts.builders.graphs.registry import GRAPHS
from trt_tts.builders.plan_job import PlanJob, PlanReport
from trt_tts.builders.profiles import Profile, ShapeRange, profiles_of
from trt_tts.manifest import Limits
from trt_tts.model_config import ModelConfig

SIZES = st.integers(0, 1 << 45)


def dimensions(rank):
    three = st.lists(st.integers(1, 5000), min_size=3, max_size=3).map(sorted)
    return st.lists(three, min_size=rank, max_size=rank)


RANGES = (
    st.integers(0, 4)
    .flatmap(dimensions)
    .map(lambda dims: ShapeRange(*([tuple(d[i] for d in dims) for i in (0, 1, 2)])))
)
PROFILES = st.builds(Profile, st.text(), st.dictionaries(st.text(), RANGES, max_size=4))
JOBS = st.builds(
    PlanJob,
    graph=st.sampled_from(list(GRAPHS)),
    onnx=st.text(st.characters(codec="utf-8")),
    plan=st.text(st.characters(codec="utf-8")),
    flavour=st.sampled_from(["tensorrt", "tensorrt_rtx"]),
    compute_capability=st.none() | st.just("7.5"),
    profiles=st.lists(PROFILES, max_size=3).map(tuple),
    workspace=SIZES,
    timing_cache=st.none() | st.just("/cache/gtx 1650.cache"),
)
REPORTS = st.builds(
    PlanReport,
    memory=st.builds(MemoryLines, SIZES, st.lists(SIZES).map(tuple), st.lists(SIZES).map(tuple), SIZES),
    seconds=st.floats(0, 1e6),
    peak_bytes=SIZES,
    cuda=st.none() | st.just("13.0.96"),
    int8_layers=st.none() | st.integers(0, 200),
)


@given(JOBS)
def test_a_job_arrives_as_it_was_sent(tmp_path_factory, job):
    file = tmp_path_factory.getbasetemp() / "job.json"
    job.save(file)
    assert PlanJob.load(file) == job


@given(REPORTS)
def test_a_report_arrives_as_it_was_sent(tmp_path_factory, report):
    file = tmp_path_factory.getbasetemp() / "report.json"
    report.save(file)
    assert PlanReport.load(file) == report


def test_real_profiles_arrive_with_shapes_that_tensorrt_takes(tmp_path):
    limits = Limits(max_batch=4, capacity=2048, prefill_chunk=128)
    for graph in GRAPHS:
        profiles = profiles_of(graph, ModelConfig(), limits)
        job = PlanJob(
            graph=graph,
            onnx="a.onnx",
            plan="a.plan",
            flavour="tensorrt_rtx",
            compute_capability="7.5",
            profiles=profiles,
            workspace=1 << 31,
            timing_cache=None,
        )
        job.save(tmp_path / "job.json")
        loaded = PlanJob.load(tmp_path / "job.json")
        assert loaded.profiles == profiles
        assert all(type(item.most) is tuple for profile in loaded.profiles for item in profile.shapes.values())
        assert json.loads((tmp_path / "job.json").read_text("utf-8"))["graph"] == graph
