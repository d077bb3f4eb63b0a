from dataclasses import replace

import pytest

from trt_tts.builders import auto_precision
from trt_tts.builders.auto_precision import build_fastest, candidates
from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.cards import load_cards
from trt_tts.builders.gpu_set import GpuBuild
from trt_tts.errors import BuildError
from trt_tts.flavour import Flavour
from trt_tts.manifest import Manifest
from trt_tts.plan_info import Verification

CARDS = load_cards()
BUILD = GpuBuild("fp16", CARDS["gtx1650"], Flavour("tensorrt", "10.16", None), ahead=False)


@pytest.mark.parametrize(
    ("card", "package", "calibrated", "wanted"),
    [
        ("gtx1650", "tensorrt", False, ("fp16", "fp32")),
        ("gtx1650", "tensorrt_rtx", False, ("fp16",)),
        ("rtx3060", "tensorrt_rtx", False, ("fp16", "fp32")),
        ("gtx1650", "tensorrt", True, ("fp16", "int8", "fp32")),
    ],
)
def test_candidates_are_what_the_card_can_run(card, package, calibrated, wanted):
    calibration = Calibration("max", {}, {}, {}) if calibrated else None
    build = GpuBuild("fp16", CARDS[card], Flavour(package, "1", None), ahead=False, calibration=calibration)
    assert candidates(build) == wanted


@pytest.fixture
def fake_builds(tiny_set, monkeypatch):
    """Sets with nothing but a manifest; `broken` fails its self-test."""
    broken = set()

    def build(checkpoint, target, request, force=False, progress=None):
        if request.precision in broken:
            raise BuildError(f"{request.precision} speaks NaN")
        target.mkdir()
        manifest = replace(Manifest.load(tiny_set), precision=request.precision, verification=Verification(True, "x"))
        manifest.save(target)
        (target / "gpt.plan").write_text(request.precision)
        return manifest

    monkeypatch.setattr(auto_precision, "build_gpu_set", build)
    return broken


def run(target, times):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(auto_precision, "time_set", lambda folder, manifest, flavour, device: times[manifest.precision])
        return build_fastest(None, target, BUILD, False, lambda stage: None)


@pytest.mark.parametrize(
    ("fp16", "fp32", "wanted"),
    [
        ({"decode-256": 0.003, "prefill": 0.01}, {"decode-256": 0.006, "prefill": 0.01}, "fp16"),
        ({"decode-256": 0.009, "prefill": 0.01}, {"decode-256": 0.006, "prefill": 0.01}, "fp32"),
        ({"decode-256": 0.006, "prefill": 0.50}, {"decode-256": 0.006, "prefill": 0.01}, "fp32"),
    ],
)
@pytest.mark.case("E13")
def test_fastest_is_kept_with_all_times(fake_builds, tmp_path, fp16, fp32, wanted):
    manifest = run(tmp_path / "set", {"fp16": fp16, "fp32": fp32})
    assert manifest.precision == wanted
    assert (tmp_path / "set" / "gpt.plan").read_text() == wanted
    assert Manifest.load(tmp_path / "set").verification.times == {"fp16": fp16, "fp32": fp32}
    assert [item.name for item in tmp_path.iterdir()] == ["set"]


def test_one_that_fails_its_self_test_is_never_kept(fake_builds, tmp_path):
    fake_builds.add("fp16")
    manifest = run(tmp_path / "set", {"fp32": {"decode-256": 1.0}})
    assert manifest.precision == "fp32"
    assert manifest.verification.times["fp16"] == {}


def test_none_that_passes_is_an_error_and_leaves_nothing(fake_builds, tmp_path):
    fake_builds.update(("fp16", "fp32"))
    with pytest.raises(BuildError, match=r"fp16 speaks NaN.*fp32 speaks NaN"):
        run(tmp_path / "set", {})
    assert list(tmp_path.iterdir()) == []
