import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from trt_tts import CheckpointError
from trt_tts.builders.checkpoint import TENSOR_FILES, TOKENIZER, expected_shapes, load_checkpoint
from trt_tts.files import sha256_of, write_sums
from trt_tts.model_config import ModelConfig

REFERENCE = Path(__file__).parents[1] / "reference"
PARTS = {"Decoder": "decoder", "DVAE": "dvae", "Embed": "embed", "Vocos": "vocos", "gpt/model": "gpt"}


def listed_tensors(section):
    """part -> name -> shape, from the list made from the published files."""
    text = (REFERENCE / "tensors.txt").read_text("utf-8").split(f"##### {section}")[1].split("#####")[0]
    tensors = {}
    for line in text.splitlines():
        if header := re.match(r"== (.+)\.safetensors", line):
            current = tensors.setdefault(PARTS[header[1]], {})
        elif line.strip():
            name, _, shape = line.split("\t")
            current[name] = tuple(int(n) for n in re.findall(r"\d+", shape))
    return tensors


@pytest.fixture
def copy(tmp_path):
    return shutil.copytree(REFERENCE / "tiny", tmp_path / "checkpoint")


def edit(copy, part, change):
    file = copy / TENSOR_FILES[part]
    tensors = load_file(file)
    change(tensors)
    save_file(tensors, file)
    return file


def test_published_sizes_give_the_published_tensors():
    assert expected_shapes(ModelConfig()) == listed_tensors("published sizes")


def test_tiny_sizes_give_the_tiny_tensors(tiny):
    assert expected_shapes(tiny.config) == listed_tensors("tiny")


def test_weight_norm_is_folded(tiny):
    stored = load_file(REFERENCE / "tiny" / TENSOR_FILES["embed"])
    gain, direction = (stored[f"head_code.2.parametrizations.weight.original{i}"].astype(np.float64) for i in (0, 1))
    expected = gain * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    assert tiny.tensors["embed"]["head_code.2.weight"] == pytest.approx(expected, rel=1e-6)
    assert not any("parametrizations" in name for name in tiny.tensors["embed"])


def test_all_tensors_become_float32(demo):
    assert {tensor.dtype for part in demo.tensors.values() for tensor in part.values()} == {np.dtype(np.float32)}


def test_voices_prompt_and_quantizer_numerics_come_from_the_config(demo, tiny):
    assert list(demo.voices) == ["adam", "bella"]
    assert demo.prompt == "[Stts][spk_emb][speed_5]{text}[Ptts]"
    assert (demo.config.dvae.vq.fsq, tiny.config.dvae.vq.fsq) == ("late", "early")
    assert (tiny.voices, tiny.prompt) == ({}, None)


@pytest.mark.parametrize("name", [*TENSOR_FILES.values(), TOKENIZER])
def test_missing_file_is_named(copy, name):
    (copy / name).unlink()
    with pytest.raises(CheckpointError, match=re.escape(name)):
        load_checkpoint(copy)


@pytest.mark.parametrize("name", TENSOR_FILES.values())
@pytest.mark.parametrize("damage", [lambda b: b[:-9], lambda b: b"", lambda b: bytes(len(b)), lambda b: b[:100]])
def test_damaged_file_is_named(copy, name, damage):
    file = copy / name
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(CheckpointError, match=re.escape(str(file))):
        load_checkpoint(copy)


@pytest.mark.parametrize("part", TENSOR_FILES)
def test_missing_and_misshaped_tensors_are_named(copy, part):
    name = sorted(load_file(copy / TENSOR_FILES[part]))[0]
    file = edit(copy, part, lambda tensors: tensors.update({name: np.zeros((3, 5), np.float32)}))
    with pytest.raises(CheckpointError, match=re.escape(name)) as error:
        load_checkpoint(copy)
    assert "(3, 5)" in str(error.value)
    edit(copy, part, lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=re.escape(str(file))) as error:
        load_checkpoint(copy)
    assert name in str(error.value)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_non_finite_weights_are_refused(copy, value):
    edit(copy, "gpt", lambda tensors: tensors["norm.weight"].__setitem__(0, value))
    with pytest.raises(CheckpointError, match=r"norm\.weight holds NaN"):
        load_checkpoint(copy)


def test_wrong_dtype_is_refused(copy):
    edit(copy, "vocos", lambda tensors: tensors.update({"head.out.bias": np.zeros(1026, np.int64)}))
    with pytest.raises(CheckpointError, match="int64"):
        load_checkpoint(copy)


def test_unexpected_tensor_warns_and_embed_tokens_is_ignored(copy, recwarn):
    edit(copy, "gpt", lambda tensors: tensors.update({"embed_tokens.weight": np.zeros(3, np.float32)}))
    load_checkpoint(copy)
    assert not recwarn.list
    edit(copy, "gpt", lambda tensors: tensors.update({"surprise": np.zeros(3, np.float32)}))
    with pytest.warns(UserWarning, match="surprise"):
        load_checkpoint(copy)


def test_old_layout_is_named_only_when_the_safetensors_are_missing(copy):
    (copy / "asset" / "Decoder.pt").write_bytes(b"old")
    load_checkpoint(copy)
    for name in TENSOR_FILES.values():
        (copy / name).unlink()
    with pytest.raises(CheckpointError, match=r"old \.pt layout"):
        load_checkpoint(copy)


def test_hash_list_is_checked_when_present(copy):
    name = TENSOR_FILES["vocos"]
    write_sums(copy, {name: sha256_of(copy / name)})
    load_checkpoint(copy)
    write_sums(copy, {name: "0" * 64})
    with pytest.raises(CheckpointError, match="0" * 64):
        load_checkpoint(copy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpt": {"hidden_size": "64"}}, "hidden_size"),
        ({"gpt": {"num_hidden_layers": 0}}, "num_hidden_layers"),
        ({"gpt": {"num_attention_heads": 3}}, "num_attention_heads"),
        ({"gpt": []}, "gpt"),
        ({"dvae": {"vq": {"fsq": "middle"}}}, "middle"),
        ({"dvae": {"vq": {"levels": [5, 5]}}}, "levels"),
        ({"dvae": {"vq": {"G": 3}}}, "num_vq"),
        ({"decoder": {"idim": 7}}, "idim"),
        ({"vocos": {"feature_extractor": {"sample_rate": 16000}}}, "16000"),
        ({"spk_stat": "乀"}, "spk_stat"),
        ({"spk_stat": None}, "spk_stat"),
        ({"prompt": 5}, "prompt is 5"),
        ({"prompt": "[Stts][spk_emb][Ptts]"}, "{text}"),
        ({"prompt": "[Stts]{text}[Ptts]"}, "[spk_emb]"),
        ({"alphabet": ["a"]}, "alphabet"),
        ({"dvae": {"encoder": {"odim": 64}}}, "dvae.vq.dim"),
        ({"gpt": {"rope_theta": float("inf")}}, "rope_theta"),
        ({"voices": "absent.json"}, "absent.json"),
    ],
)
def test_wrong_config_names_the_key(copy, change, message):
    file = copy / "config.json"
    config = json.loads(file.read_text("utf-8"))
    for key, value in change.items():
        config[key] = config[key] | value if isinstance(value, dict) else value
    file.write_text(json.dumps(config), "utf-8")
    with pytest.raises(CheckpointError, match=re.escape(message)):
        load_checkpoint(copy)


def test_tokenizer_without_the_models_tokens_is_refused(copy):
    file = copy / TOKENIZER
    file.write_text(file.read_text("utf-8").replace("[spk_emb]", "[spk_gone]"), "utf-8")
    with pytest.raises(CheckpointError, match=re.escape("[spk_emb]")):
        load_checkpoint(copy)


def test_tokenizer_larger_than_the_model_is_refused(copy):
    shutil.copy(copy / TOKENIZER, copy / "kept.json")
    data = json.loads((copy / TOKENIZER).read_text("utf-8"))
    data["model"]["vocab"]["extra"] = len(data["model"]["vocab"]) + 50
    (copy / TOKENIZER).write_text(json.dumps(data), "utf-8")
    with pytest.raises(CheckpointError, match="4659 tokens"):
        load_checkpoint(copy)


def test_voices_file_is_hashed_too(demo):
    assert "speakers.json" in demo.hashes


def test_row_of_zeros_under_weight_norm_is_refused(copy):
    name = "head_code.0.parametrizations.weight.original1"
    edit(copy, "embed", lambda tensors: tensors[name].__setitem__(3, 0))
    with pytest.raises(CheckpointError, match=re.escape(name)):
        load_checkpoint(copy)


def test_folder_that_is_none_is_explained(tmp_path):
    with pytest.raises(CheckpointError, match="trt-tts fetch"):
        load_checkpoint(tmp_path / "absent")


def test_statistics_file_of_the_published_layout_is_read(copy, tiny):
    import torch

    file = copy / "config.json"
    config = json.loads(file.read_text("utf-8"))
    del config["spk_stat"]
    file.write_text(json.dumps(config), "utf-8")
    assert load_checkpoint(copy).statistics is None
    values = np.concatenate([tiny.statistics.std, tiny.statistics.mean])
    torch.save(torch.from_numpy(values), copy / "asset" / "spk_stat.pt")
    found = load_checkpoint(copy).statistics
    assert np.array_equal(found.std, tiny.statistics.std)
    assert np.array_equal(found.mean, tiny.statistics.mean)
    (copy / "asset" / "spk_stat.pt").write_bytes(b"not torch")
    with pytest.raises(CheckpointError, match=r"spk_stat\.pt"):
        load_checkpoint(copy)
