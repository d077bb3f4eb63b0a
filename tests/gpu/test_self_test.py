"""The self-test of a set on a GPU, as `trt-tts verify` and builds run it."""

import pytest

from trt_tts.builders import verify
from trt_tts.builders.auto_precision import time_set
from trt_tts.builders.verify import require_verified, verify_folder
from trt_tts.errors import BuildError, EngineSetError
from trt_tts.flavour import load_flavour
from trt_tts.manifest import Manifest
from trt_tts.selftest import load_cases

pytestmark = pytest.mark.gpu
LIVE = ("device_live", "pinned_live", "streams_live", "contexts_retained")


def verified(folder):
    return verify_folder(folder, Manifest.load(folder), load_flavour("tensorrt"), lambda stage: None)


def test_a_good_set_passes_and_every_case_is_recorded(tiny_trt_set):
    manifest = verified(tiny_trt_set)
    require_verified(manifest)
    results = manifest.verification.results
    assert len(results) == len(load_cases(tiny_trt_set))
    assert min(item.snr_db for item in results if item.snr_db is not None) > 60


@pytest.mark.case("E10")
@pytest.mark.parametrize(("factor", "said"), [("nan", "NaN"), ("1e-9", "silent"), ("1.5", "dB above")])
def test_wrong_numbers_fail(emulator, tiny_trt_set, factor, said, monkeypatch):
    monkeypatch.setenv("EMULATED_TENSORRT_FACTOR", factor)
    before = [emulator.stat(name) for name in LIVE]
    manifest = verified(tiny_trt_set)
    assert not manifest.verification.verified
    assert said in manifest.verification.reason
    with pytest.raises(BuildError, match=said):
        require_verified(manifest)
    assert [emulator.stat(name) for name in LIVE] == before


def test_a_graph_without_cases_is_not_called_tested(tiny_trt_set, monkeypatch):
    cases = [case for case in load_cases(tiny_trt_set) if case.graph != "text_head"]
    monkeypatch.setattr(verify, "load_cases", lambda folder: cases)
    with pytest.raises(EngineSetError, match="no self-test of text_head"):
        verified(tiny_trt_set)


def test_times_cover_every_profile(tiny_trt_set):
    manifest = Manifest.load(tiny_trt_set)
    times = time_set(tiny_trt_set, manifest, load_flavour("tensorrt"))
    assert set(times) == {profile.name for profile in manifest.graphs["gpt"].plan.profiles}
    assert min(times.values()) > 0
