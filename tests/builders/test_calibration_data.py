import json
import re

import pytest

from trt_tts.builders.calibration_data import CALIBRATION_VERSION, Calibration, load_calibration
from trt_tts.errors import UsageError

SCALES = {"layers.0.mlp.down_proj/MatMul": 0.03, "layers.1.mlp.down_proj/MatMul": 2}


@pytest.fixture
def write(tmp_path, tiny):
    def written(**changes):
        data = {
            "version": CALIBRATION_VERSION,
            "method": "entropy",
            "checkpoint": tiny.hashes,
            "scales": SCALES,
            "errors": dict.fromkeys(SCALES, 0.01),
            "smoothing": {"layers.0.mlp.down_proj/MatMul": [0.5, 2]},
            "sensitivity": {},
            "dataset": "texts",
            "dataset_sha256": "ab",
        }
        data = {key: value for key, value in (data | changes).items() if value is not None}
        file = tmp_path / "calibration.json"
        file.write_text(json.dumps(data), "utf-8")
        return file

    return written


def refusal(file, checkpoint):
    with pytest.raises(UsageError) as error:
        load_calibration(file, checkpoint)
    assert str(file) in str(error.value)
    return str(error.value)


def test_file_of_this_checkpoint_is_read(write, tiny):
    found = load_calibration(write(), tiny)
    scales = {name: float(scale) for name, scale in SCALES.items()}
    smoothing = {"layers.0.mlp.down_proj/MatMul": (0.5, 2.0)}
    errors = dict.fromkeys(SCALES, 0.01)
    assert found == Calibration("entropy", tiny.hashes, scales, errors, smoothing, {}, "texts", "ab")
    assert found.title == "calibrated by entropy, 1 of 2 linears smoothed, on texts"
    assert all(type(scale) is float for scale in found.scales.values())


def test_missing_file_says_how_to_make_one_and_what_needs_none(tmp_path, tiny):
    for file in (tmp_path / "absent.json", tmp_path):
        message = refusal(file, tiny)
        assert f"trt-tts calibrate --dataset corpus/ -o {file}" in message
        assert "--precision fp16" in message


@pytest.mark.parametrize("version", [0, 1, "2", None])
def test_other_versions_are_refused(write, tiny, version):
    assert f"has version {version!r}; this program reads 2" in refusal(write(version=version), tiny)


def test_other_checkpoint_is_refused_and_the_changed_file_is_named(write, tiny, demo):
    file = write()
    assert re.search(r"another checkpoint than .*: \S+ differs\. Calibrate this", refusal(file, demo))
    name = sorted(tiny.hashes)[-1]
    assert f"{name} differs" in refusal(write(checkpoint=tiny.hashes | {name: "0" * 64}), tiny)
    fewer = {key: digest for key, digest in tiny.hashes.items() if key != name}
    assert f"{name} differs" in refusal(write(checkpoint=fewer), tiny)


@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"", lambda b: b"\xff" + b, lambda b: bytes(len(b))])
def test_damaged_files_are_no_readable_json(write, tiny, damage):
    file = write()
    file.write_bytes(damage(file.read_bytes()))
    assert "is not readable JSON" in refusal(file, tiny)


def test_json_of_another_kind_is_refused(write, tiny):
    file = write()
    file.write_text("[1]", "utf-8")
    assert "expected a JSON object, found list" in refusal(file, tiny)


@pytest.mark.parametrize(
    "changes",
    [
        {"method": None},
        {"checkpoint": None},
        {"scales": None},
        {"checkpoint": 3},
        {"scales": [0.5]},
        {"scales": {}},
        {"errors": {}},
        {"scales": {"layers.0": "wide"}},
        {"scales": {"layers.0": [0.5]}},
        {"scales": {"layers.0": 10**400}},
        {"smoothing": None},
        {"smoothing": {"layers.0": 3}},
        {"smoothing": {"layers.0": ["wide"]}},
        {"sensitivity": [1]},
        {"sensitivity": {"layers.0": None}},
        {"scales": {"layers.0": 0.0}},
        {"scales": {"layers.0": -0.1}},
        {"scales": {"layers.0": float("nan")}},
    ],
)
def test_missing_and_mistyped_parts_are_refused(write, tiny, changes):
    assert "is no calibration file (" in refusal(write(**changes), tiny)
