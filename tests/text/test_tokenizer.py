import json
from pathlib import Path

import numpy as np
import pytest

from trt_tts.demo import demo_checkpoint
from trt_tts.errors import CheckpointError
from trt_tts.text.tokenizer import load_tokenizer

REFERENCE = Path(__file__).parent.parent / "reference"
FILES = {
    name: folder / "asset" / "tokenizer" / "tokenizer.json"
    for name, folder in (("tiny", REFERENCE / "tiny"), ("demo_voice", demo_checkpoint()))
}


@pytest.fixture(scope="module", params=FILES)
def checkpoint(request):
    """Name, tokenizer and the parsed tokenizer file of a checkpoint."""
    file = FILES[request.param]
    return request.param, load_tokenizer(file), json.loads(file.read_text("utf-8"))


def prompts():
    for name in FILES:
        cases = json.loads((REFERENCE / name / "cases.json").read_text("utf-8"))
        for kind, key in (("spk", "prompts_with_speaker"), ("empty", "prompts_without_speaker")):
            for i, prompt in enumerate(cases[key]):
                yield pytest.param(name, f"ids_{kind}_{i}", prompt, id=f"{name}-{kind}-{i}")


@pytest.mark.parametrize(("name", "key", "prompt"), list(prompts()))
def test_ids_equal_the_published_tokenizers(name, key, prompt):
    with np.load(REFERENCE / name / "vectors.npz") as vectors:
        assert load_tokenizer(FILES[name]).encode(prompt) == vectors[key].tolist()


def test_a_long_text_is_neither_cut_nor_padded(checkpoint):
    """The published file pads to 256 and cuts there."""
    _, tokenizer, _ = checkpoint
    text = "a " * 500
    assert len(text) == 1000
    assert tokenizer.encode(text) == tokenizer.encode("a") * 500


@pytest.mark.parametrize("text", ["", "a", "hi"])
def test_nothing_is_added_to_a_short_text(checkpoint, text):
    _, tokenizer, _ = checkpoint
    assert len(tokenizer.encode(text)) == len(text)


def test_special_gives_the_ids_of_the_file(checkpoint):
    _, tokenizer, file = checkpoint
    for token in file["added_tokens"]:
        assert tokenizer.special(token["content"]) == token["id"]
        assert tokenizer.encode(token["content"]) == [token["id"]]


def test_special_tokens_stay_one_id_whatever_surrounds_them(checkpoint):
    _, tokenizer, _ = checkpoint
    tag, a = tokenizer.special("[uv_break]"), tokenizer.encode("a")
    for text in ("a[uv_break]a", "a [uv_break] a", "a[uv_break] a"):
        assert tokenizer.encode(text) == [*a, tag, *a]


@pytest.mark.parametrize("name", ["[nothing]", "[PTTS]", "spk_emb", "", " [Ptts]"])
def test_a_token_that_is_lacking_is_an_error_that_names_it(checkpoint, name):
    _, tokenizer, _ = checkpoint
    with pytest.raises(CheckpointError) as caught:
        tokenizer.special(name)
    assert f"token {name}" in str(caught.value)


def test_decode_gives_the_special_tokens_too(checkpoint):
    _, tokenizer, _ = checkpoint
    text = "[Stts]hi[uv_break]"
    assert tokenizer.decode(tokenizer.encode(text)).replace(" ", "") == text


def test_known_text_has_no_unknown_words(checkpoint):
    name, tokenizer, _ = checkpoint
    for text in json.loads((REFERENCE / name / "cases.json").read_text("utf-8"))["texts"]:
        assert tokenizer.unknown_words(text) == []
    assert tokenizer.unknown_words("") == []


def test_unknown_words_are_listed_in_order_and_once(checkpoint):
    """Characters outside the basic plane come first: the offsets count characters, not bytes or UTF-16 units."""
    _, tokenizer, _ = checkpoint
    assert tokenizer.unknown_words("\U00020bb7 hi \U0001d11e ready ξζ \U00020bb7 ok") == [
        "\U00020bb7",
        "\U0001d11e",
        "ξζ",
    ]


def test_the_demo_voice_knows_no_chinese():
    assert load_tokenizer(FILES["demo_voice"]).unknown_words("ok 你好") == ["你", "好"]


@pytest.mark.parametrize("content", [b"", b"{}", b"{", b"[]", b"\xff\xfe\x00", b'{"model": {}}', b"\0" * 100], ids=repr)
def test_a_malformed_file_is_an_error_that_names_it(content, tmp_path):
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    with pytest.raises(CheckpointError) as caught:
        load_tokenizer(file)
    assert str(file) in str(caught.value)


def test_a_missing_file_is_an_error_that_names_it(tmp_path):
    with pytest.raises(CheckpointError) as caught:
        load_tokenizer(tmp_path / "tokenizer.json")
    assert str(tmp_path / "tokenizer.json") in str(caught.value)


def test_a_truncated_file_is_an_error_that_names_it(checkpoint, tmp_path):
    name, _, _ = checkpoint
    content = FILES[name].read_bytes()
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError) as caught:
        load_tokenizer(file)
    assert str(file) in str(caught.value)
