import json

import pytest

from trt_tts.calibration.dataset import CORPUS, load_dataset
from trt_tts.errors import UsageError

TEXTS = [f"sentence number {word}" for word in ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]]


def write(folder, name, content, codec="utf-8"):
    (folder / name).write_bytes(content.encode(codec))
    return folder


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "\n".join(TEXTS)),
        ("a.txt", "\r\n".join([*TEXTS, "", "  ", TEXTS[0]])),
        ("a.jsonl", "\n".join(json.dumps({"text": text, "speaker": 3}) for text in TEXTS)),
        ("metadata.csv", "\n".join(f'LJ001-{i}|raw "text"|{text}' for i, text in enumerate(TEXTS))),
    ],
)
def test_every_format_gives_the_distinct_texts_in_order(tmp_path, name, content):
    folder = write(tmp_path, name, content)
    for source in (folder, folder / name):
        assert load_dataset(str(source), tmp_path).texts == tuple(TEXTS)


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path):
    write(tmp_path, "a.txt", "\n".join(TEXTS), "utf-8-sig")
    assert load_dataset(str(tmp_path), tmp_path).texts[0] == TEXTS[0]


def test_folders_are_read_in_order_and_deep(tmp_path):
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep", "b.txt", "\n".join(TEXTS[4:]))
    write(tmp_path, "a.txt", "\n".join(TEXTS[:4]))
    write(tmp_path, "picture.png", "no text")
    assert load_dataset(str(tmp_path), tmp_path).texts == tuple(TEXTS)


def test_the_hash_follows_the_texts(tmp_path):
    write(tmp_path, "a.txt", "\n".join(TEXTS))
    first = load_dataset(str(tmp_path), tmp_path).sha256
    write(tmp_path, "a.txt", "\n".join([*TEXTS, "one more"]))
    assert load_dataset(str(tmp_path), tmp_path).sha256 != first


@pytest.mark.parametrize(
    ("name", "content", "codec", "said"),
    [
        ("a.txt", "", "utf-8", "holds 0 distinct texts; at least 8"),
        ("a.txt", "the same\n" * 100, "utf-8", "holds 1 distinct texts"),
        ("a.txt", "\n".join(f"number {i}" for i in range(99)), "utf-8", "99 texts .* all alike: they hold 1 distinct"),
        ("a.txt", "\n".join("一二三"[: i % 3 + 1] * i for i in range(1, 20)), "utf-8", "hold 3 distinct words or char"),
        ("a.txt", "caf\xe9\n" * 9, "latin-1", "not UTF-8"),
        ("a.jsonl", '{"text": "a"}\n{"no": 1}', "utf-8", "line 2"),
        ("a.jsonl", "[1]", "utf-8", "line 1"),
        ("a.jsonl", '{"text": "good"}\n{"text": null}', "utf-8", 'line 2: "text" is None, not a string'),
        ("A.JSONL", '{"text": ["good"]}', "utf-8", "not a string"),
        ("a.csv", "id,text\n1,good morning", "utf-8", r"not of the form id\|text"),
        ("a.png", "nothing", "utf-8", "holds no .txt"),
    ],
)
def test_useless_datasets_say_why(tmp_path, name, content, codec, said):
    write(tmp_path, name, content, codec)
    with pytest.raises(UsageError, match=said):
        load_dataset(str(tmp_path), tmp_path)


def test_a_missing_dataset_names_the_default(tmp_path):
    with pytest.raises(UsageError, match="--dataset default"):
        load_dataset(str(tmp_path / "nowhere"), tmp_path)


def test_default_is_the_checkpoints_own_text_else_the_corpora(tmp_path, demo):
    assert len(load_dataset("default", demo.path).texts) > 5000
    found = load_dataset("default", tmp_path)
    assert found.source == str(CORPUS)
    assert len(found.texts) >= 450
