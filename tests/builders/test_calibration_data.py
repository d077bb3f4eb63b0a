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
            "smoothing": {"layers.0.mlp.down_proj/MatMul": [0.5, 2] * (tiny.config.gpt.intermediate_size // 2)},
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
    smoothing = {"layers.0.mlp.down_proj/MatMul": (0.5, 2.0) * (tiny.config.gpt.intermediate_size // 2)}
    errors = dict.fromkeys(SCALES, 0.01)
    assert found == Calibration("entropy", tiny.hashes, scales, errors, smoothing, {}, "texts", "ab")
    assert found.title == "calibrated by entropy, 1 of 2 linears smoothed, on texts"
    assert all(type(scale) is float for scale in found.scales.values())


def test_missing_file_says_how_to_make_one_and_what_needs_none(tmp_path, tiny):
    message = refusal(tmp_path / "absent.json", tiny)
    assert f"trt-tts calibrate --dataset corpus/ -o {tmp_path / 'absent.json'}" in message
    assert "--precision fp16" in message
    assert "is a folder" in refusal(tmp_path, tiny)


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


DOWN = "layers.0.mlp.down_proj/MatMul"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"method": None}, 'it lacks "method"'),
        ({"checkpoint": None}, 'it lacks "checkpoint"'),
        ({"scales": None}, 'it lacks "scales"'),
        ({"smoothing": None}, 'it lacks "smoothing"'),
        ({"checkpoint": 3}, '"checkpoint" is 3, not an object'),
        ({"scales": [0.5]}, '"scales" is [0.5], not an object'),
        ({"scales": {}}, "holds no scales"),
        ({"errors": {}}, '"errors" and "scales" differ in layers.0'),
        ({"errors": dict.fromkeys(SCALES, float("nan"))}, '"errors" of layers.0.mlp.down_proj/MatMul is nan'),
        ({"scales": SCALES | {"layers.9.mlp.down_proj/MatMul": 1}}, "layers.9.mlp.down_proj/MatMul is no linear"),
        ({"scales": {DOWN: "wide"}}, f"\"scales\" of {DOWN} is 'wide', not a number"),
        ({"scales": {DOWN: [0.5]}}, f'"scales" of {DOWN} is [0.5], not a number'),
        ({"scales": {DOWN: True}}, f'"scales" of {DOWN} is True'),
        ({"scales": {DOWN: 10**400}}, f'"scales" of {DOWN} is 1000'),
        ({"scales": {DOWN: 1e300}}, f'"scales" of {DOWN} is 1e+300, not a number from 0 to 1e+09'),
        ({"scales": {DOWN: 0.0}}, "a scale is 0.0, not above 0"),
        ({"scales": {DOWN: -0.1}}, f'"scales" of {DOWN} is -0.1'),
        ({"scales": {DOWN: float("nan")}}, f'"scales" of {DOWN} is nan'),
        ({"sensitivity": [1]}, '"sensitivity" is [1], not an object'),
        ({"sensitivity": {DOWN: None}}, f'"sensitivity" of {DOWN} is None'),
        ({"sensitivity": {DOWN: 0.1}}, '"sensitivity" and "scales" differ in layers.1'),
        ({"smoothing": {DOWN: 3}}, f'"smoothing" of {DOWN} is 3, not a list'),
        ({"smoothing": {DOWN: "11"}}, f"\"smoothing\" of {DOWN} is '11', not a list"),
        ({"smoothing": {DOWN: [1, "wide"]}}, f"\"smoothing\" of {DOWN} is 'wide'"),
        ({"smoothing": {DOWN: [1, -2]}}, f'"smoothing" of {DOWN} is -2'),
        ({"smoothing": {DOWN: [1, 0]}}, f'"smoothing" of {DOWN} holds 0.0; factors are above 0'),
        ({"smoothing": {DOWN: [1, 2, 3]}}, "input channels and 3 smoothing factors"),
        ({"smoothing": {"layers.0.mlp.up/MatMul": [1]}}, '"smoothing" names layers.0.mlp.up/MatMul'),
    ],
)
def test_missing_and_mistyped_parts_are_named(write, tiny, changes, said):
    message = refusal(write(**changes), tiny)
    assert "is no calibration file: " in message and said in message
    assert "Calibrate anew" in message
