import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from trt_tts.errors import CheckpointError, EngineSetError, TrtTtsError, UsageError
from trt_tts.files import new_file, new_folder, read_json, read_sums, require_free_space, sha256_of, write_sums


def names(folder):
    return sorted(item.name for item in folder.iterdir())


def make_set(folder, text="old"):
    folder.mkdir()
    (folder / "manifest.json").write_text(text)
    return folder


@pytest.mark.parametrize("name", ["set", "模型 目录 (1)"])
def test_new_folder_appears_under_its_name_when_the_block_succeeds(name, tmp_path):
    target = tmp_path / name
    with new_folder(target, False, anything) as work:
        assert work.parent == tmp_path
        assert not target.exists()
        (work / "a").write_text("new")
    assert names(tmp_path) == [name]
    assert (target / "a").read_text() == "new"


def anything(folder):
    return True


def nothing(folder):
    return False


@pytest.mark.parametrize("force", [True, False])
def test_new_folder_never_deletes_what_is_not_ours(force, tmp_path):
    target = tmp_path / "thesis"
    target.mkdir()
    (target / "chapter.txt").write_text("years of work")
    with pytest.raises(UsageError, match="never overwritten"), new_folder(target, force, nothing):
        pass
    assert (target / "chapter.txt").read_text() == "years of work"
    assert [item.name for item in tmp_path.iterdir()] == ["thesis"]


@pytest.mark.parametrize("place", [".", "..", "../.."])
def test_new_folder_never_replaces_the_folder_one_stands_in(place, tmp_path, monkeypatch):
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    with pytest.raises(UsageError, match="stand in"), new_folder(Path(place), True, anything):
        pass
    assert inner.is_dir()


def test_new_folder_keeps_what_appeared_while_it_was_filled(tmp_path):
    target = tmp_path / "set"
    with pytest.raises(UsageError, match="exists already"), new_folder(target, False, anything):
        target.mkdir()
        (target / "theirs").write_text("first")
    assert (target / "theirs").read_text() == "first"
    assert [item.name for item in tmp_path.iterdir()] == ["set"]


def test_new_folder_behind_a_link_replaces_what_the_link_names(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    with new_folder(tmp_path / "link", True, anything) as work:
        (work / "new").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "new").exists()


def test_new_folder_makes_missing_parents(tmp_path):
    with new_folder(tmp_path / "engines" / "cpu", False, anything) as work:
        (work / "a").write_text("new")
    assert (tmp_path / "engines" / "cpu" / "a").read_text() == "new"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
def test_new_folder_can_be_read_by_others(tmp_path):
    with new_folder(tmp_path / "set", False, anything):
        pass
    assert (tmp_path / "set").stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_new_folder_leaves_nothing_when_the_block_fails(error, tmp_path):
    with pytest.raises(error), new_folder(tmp_path / "set", False, anything) as work:
        (work / "deep").mkdir()
        (work / "deep" / "a").write_text("half")
        raise error
    assert names(tmp_path) == []


def test_new_folder_refuses_an_existing_folder_and_leaves_it(tmp_path):
    target = make_set(tmp_path / "set")
    with pytest.raises(UsageError, match="--force") as caught, new_folder(target, False, anything):
        raise AssertionError("the block must not run")
    assert str(target) in str(caught.value)
    assert (target / "manifest.json").read_text() == "old"
    assert names(tmp_path) == ["set"]


def test_new_folder_with_force_replaces_an_existing_folder_whole(tmp_path):
    target = make_set(tmp_path / "set")
    with new_folder(target, True, anything) as work:
        assert (target / "manifest.json").read_text() == "old"
        (work / "b").write_text("new")
    assert names(tmp_path) == ["set"]
    assert names(target) == ["b"]


def test_new_folder_with_force_keeps_the_old_folder_when_the_block_fails(tmp_path):
    target = make_set(tmp_path / "set")
    with pytest.raises(ValueError, match="broken"), new_folder(target, True, anything) as work:
        (work / "b").write_text("half")
        raise ValueError("broken")
    assert names(tmp_path) == ["set"]
    assert (target / "manifest.json").read_text() == "old"


@pytest.mark.parametrize("force", [False, True])
def test_new_folder_refuses_a_file_in_its_place(force, tmp_path):
    (tmp_path / "set").write_text("a file")
    with pytest.raises(UsageError, match="is a file"), new_folder(tmp_path / "set", force, anything):
        raise AssertionError("the block must not run")
    assert (tmp_path / "set").read_text() == "a file"


def test_new_folder_below_a_file_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(UsageError, match="-o"), new_folder(tmp_path / "file" / "set", False, anything):
        raise AssertionError("the block must not run")


def test_new_file_appears_when_the_block_succeeds(tmp_path):
    target = tmp_path / "a.wav"
    target.write_text("old")
    with new_file(target) as work:
        assert work.parent == tmp_path
        work.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"
    assert names(tmp_path) == ["a.wav"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_new_file_leaves_the_old_file_when_the_block_fails(error, tmp_path):
    target = tmp_path / "a.wav"
    target.write_text("old")
    with pytest.raises(error), new_file(target) as work:
        work.write_text("half")
        raise error
    assert target.read_text() == "old"
    assert names(tmp_path) == ["a.wav"]


def test_two_writers_of_the_same_file_do_not_share_a_temporary_file(tmp_path):
    with new_file(tmp_path / "a.wav") as one, new_file(tmp_path / "a.wav") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert names(tmp_path) == ["a.wav"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_read_json_reads_utf8_with_and_without_a_byte_order_mark(encoding, tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"voice": "你好"}', encoding)
    assert read_json(file, CheckpointError) == {"voice": "你好"}


@pytest.mark.parametrize("error", [CheckpointError, EngineSetError])
@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1, 2]", b'"text"', b"5", b"null", b"\0" * 64, b'{"a": "\xff"}', '{"a": 1}'.encode("utf-16")],
    ids=repr,
)
def test_read_json_of_anything_else_raises_the_given_error_and_names_the_file(content, error, tmp_path):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(error) as caught:
        read_json(file, error)
    assert str(file) in str(caught.value)


def test_read_json_of_a_missing_file_or_a_folder_names_it(tmp_path):
    with pytest.raises(CheckpointError, match=r"nothing\.json is missing"):
        read_json(tmp_path / "nothing.json", CheckpointError)
    with pytest.raises(CheckpointError) as caught:
        read_json(tmp_path, CheckpointError)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"abc", bytes(3_000_000)])
def test_sha256_of_a_file_equals_that_of_its_bytes(content, tmp_path):
    (tmp_path / "a").write_bytes(content)
    assert sha256_of(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_sums_round_trip(tmp_path):
    sums = {"b/c d.onnx": "1" * 64, "a": "0123456789abcdef" * 4, "模型.bin": "f" * 64}
    write_sums(tmp_path, sums)
    assert read_sums(tmp_path, CheckpointError) == sums
    assert (tmp_path / "SHA256SUMS").read_bytes().endswith(b"\n")
    assert b"\r" not in (tmp_path / "SHA256SUMS").read_bytes()


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="needs the sha256sum program")
def test_the_sha256sum_program_accepts_the_sums(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a", "sub/模型 1.bin"):
        (tmp_path / name).write_bytes(name.encode())
    write_sums(tmp_path, {name: sha256_of(tmp_path / name) for name in ("a", "sub/模型 1.bin")})
    checked = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stderr


def test_no_sums_file_means_no_sums(tmp_path):
    assert read_sums(tmp_path, CheckpointError) == {}


@pytest.mark.parametrize(
    "content",
    [
        b"hello\n",
        b"abc  a\n",
        b"0" * 64 + b"\n",
        b"0" * 64 + b"  \n",
        b"0" * 63 + b"  a\n",
        b"\0" * 80,
        b"\xff\xfe" * 40,
    ],
    ids=lambda content: repr(content[:8]),
)
def test_a_malformed_line_of_sums_raises_the_given_error_and_names_the_file(content, tmp_path):
    (tmp_path / "SHA256SUMS").write_bytes(b"1" * 64 + b"  good\n" + content)
    with pytest.raises(EngineSetError) as caught:
        read_sums(tmp_path, EngineSetError)
    assert str(tmp_path / "SHA256SUMS") in str(caught.value)


@pytest.mark.parametrize("missing", ["", "a", "a/b/c"])
def test_require_free_space_says_how_much_is_needed_and_free(missing, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=250_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(TrtTtsError) as caught:
        require_free_space(tmp_path / missing, 3_999_000_000)
    for part in (str(tmp_path), "3999 MB needed", "250 MB free", "-o"):
        assert part in str(caught.value)


def test_require_free_space_is_content_with_exactly_enough(tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    require_free_space(tmp_path, 1000)
    with pytest.raises(TrtTtsError):
        require_free_space(tmp_path, 1001)


def test_require_free_space_asks_the_real_disk_and_makes_nothing(tmp_path):
    require_free_space(tmp_path / "a" / "b", 1)
    with pytest.raises(TrtTtsError):
        require_free_space(tmp_path / "a" / "b", 10**18)
    assert names(tmp_path) == []


def test_json_written_by_the_standard_library_is_read_back(tmp_path):
    value = {"a": [1, 2.5, None, True], "b": {"c": "½"}}
    (tmp_path / "a.json").write_text(json.dumps(value), "utf-8")
    assert read_json(tmp_path / "a.json", TrtTtsError) == value
