"""What happens to a set that was damaged, moved, or made for something else."""

import json
import shutil

import pytest

from trt_tts import Engine, EngineSetError
from trt_tts.manifest import MANIFEST, Manifest

FILES = [
    "manifest.json", "gpt.onnx", "gpt.weights", "codec.onnx", "codec.weights", "codec_vq.onnx", "codec_vq.weights",
    "text_head.onnx", "text_head.weights", "voice_encoder.onnx", "voice_encoder.weights",
    "text_embedding.npy", "tokenizer.json", "voices.json",
]  # fmt: skip


def _remove(file, others):
    file.unlink()


def _truncate(file, others):
    file.write_bytes(file.read_bytes()[:-7])


def _empty(file, others):
    file.write_bytes(b"")


def _zero(file, others):
    file.write_bytes(bytes(file.stat().st_size))


def _swap(file, others):
    other = next(path for path in others if path != file)
    content = file.read_bytes()
    file.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _flip_one_bit(file, others):
    content = bytearray(file.read_bytes())
    content[0] ^= 1
    file.write_bytes(content)


@pytest.fixture
def copy(tiny_set, tmp_path):
    return shutil.copytree(tiny_set, tmp_path / "set")


def test_the_matrix_covers_every_file(tiny_set):
    assert sorted(file.name for file in tiny_set.iterdir()) == sorted(FILES)


@pytest.mark.parametrize("damage", [_remove, _truncate, _empty, _zero, _swap, _flip_one_bit])
@pytest.mark.parametrize("name", FILES)
def test_damaged_file_is_named(copy, name, damage):
    damage(copy / name, sorted(copy.iterdir(), reverse=True))
    with pytest.raises(EngineSetError) as error:
        Engine.load(copy)
    named = [file for file in FILES if file in str(error.value)]
    assert named, error.value
    if damage is not _swap:
        assert name in named


def test_hash_mismatch_shows_both_hashes(copy):
    recorded = Manifest.load(copy).files["voices.json"].sha256
    _flip_one_bit(copy / "voices.json", [])
    with pytest.raises(EngineSetError, match=recorded):
        Engine.load(copy)


@pytest.mark.case("E18")
def test_moved_set_works_from_anywhere_under_any_name(copy, tmp_path, monkeypatch):
    target = tmp_path / "模型 目录" / "引擎 (1)"
    target.parent.mkdir()
    copy.rename(target)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with Engine.load(target) as engine:
        assert engine.synthesize("the", seed=0, max_steps=3).steps == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format_version": 99}, "format version 99"),
        ({"format_version": None}, "format version None"),
        ({"backend": "tensorrt"}, "names the runtime 'onnxruntime"),
        ({"backend": "rocm"}, "rocm"),
        ({"files": {}}, "has no hash of"),
        ({"limits": {"max_batch": 1}}, "damaged"),
        ({"limits": {"max_batch": 0, "capacity": 64, "prefill_chunk": 8}}, "max_batch"),
        ({"config": {"gpt": {"hidden_size": -1}}}, "hidden_size"),
        ({"graphs": []}, "damaged"),
        ({"unknown_key": 1}, "unknown_key"),
    ],
)
def test_manifest_of_something_else_is_refused(copy, change, message):
    file = copy / MANIFEST
    file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | change), "utf-8")
    with pytest.raises(EngineSetError, match=message):
        Engine.load(copy)


def test_folder_without_a_set_is_explained(tmp_path):
    with pytest.raises(EngineSetError, match="trt-tts build"):
        Engine.load(tmp_path)
    with pytest.raises(EngineSetError, match="no such folder"):
        Engine.load(tmp_path / "absent")


def test_manifest_survives_a_round_trip(tiny_set, tmp_path):
    manifest = Manifest.load(tiny_set)
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path) == manifest
    assert (tmp_path / MANIFEST).read_bytes() == (tiny_set / MANIFEST).read_bytes()
