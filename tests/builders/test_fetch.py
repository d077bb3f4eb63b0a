import fnmatch
import hashlib
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from trt_tts.builders.checkpoint import load_checkpoint
from trt_tts.builders.fetch import REPOSITORY, fetch_checkpoint
from trt_tts.errors import CheckpointError, TrtTtsError, UsageError
from trt_tts.files import read_sums

TINY = Path(__file__).parent.parent / "reference" / "tiny"
NEEDED = [
    "asset/DVAE.safetensors",
    "asset/Decoder.safetensors",
    "asset/Embed.safetensors",
    "asset/Vocos.safetensors",
    "asset/gpt/config.json",
    "asset/gpt/model.safetensors",
    "asset/tokenizer/special_tokens_map.json",
    "asset/tokenizer/tokenizer.json",
    "asset/tokenizer/tokenizer_config.json",
    "config.json",
]
UNWANTED = ["README.md", "asset/GPT.pt", "other/asset.bin"]
"""The published repository holds more than a build needs."""


def sha256(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


class FakeHub:
    """Stands for the `huggingface_hub` module: its repository is the tiny checkpoint."""

    def __init__(self, listed=(*NEEDED, *UNWANTED), damage=(), drop=(), error=None, size=None):
        self.listed, self.damage, self.drop, self.error, self.size = listed, damage, drop, error, size
        self.folders, self.copied = [], []
        self.utils = SimpleNamespace(filter_repo_objects=self.filter_repo_objects)

    @staticmethod
    def filter_repo_objects(items, allow_patterns):
        return (item for item in items if any(fnmatch.fnmatch(item, pattern) for pattern in allow_patterns))

    def HfApi(self):  # noqa: N802
        return self

    def model_info(self, repository, files_metadata):
        assert repository == REPOSITORY
        assert files_metadata is True
        if self.error == "listing":
            raise ConnectionError("name or service not known")
        return SimpleNamespace(siblings=[self.sibling(name) for name in self.listed])

    def sibling(self, name):
        file = TINY / name
        size = self.size or (file.stat().st_size if file.exists() else 10)
        large = name.endswith(".safetensors")
        return SimpleNamespace(rfilename=name, size=size, lfs=SimpleNamespace(sha256=sha256(file)) if large else None)

    def snapshot_download(self, repository, allow_patterns, local_dir):
        assert repository == REPOSITORY
        self.folders.append(local_dir)
        for name in self.filter_repo_objects(self.listed, allow_patterns):
            target = Path(local_dir) / name
            if target.exists() or name in self.drop:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TINY / name, target)
            self.copied.append(name)
            if name in self.damage:
                target.write_bytes(target.read_bytes()[:-1] + b"\x55")
            if self.error == name:
                raise ConnectionError("connection reset by peer")
        return str(local_dir)


def test_a_download_is_a_checkpoint_with_its_sums(tmp_path):
    target = tmp_path / "模型" / "ChatTTS"
    assert fetch_checkpoint(target, FakeHub()) == target
    assert read_sums(target, CheckpointError) == {name: sha256(TINY / name) for name in NEEDED}
    loaded = load_checkpoint(target)
    assert loaded.config.gpt.hidden_size == 64
    assert loaded.hashes["asset/Embed.safetensors"] == sha256(TINY / "asset/Embed.safetensors")


def test_files_a_build_does_not_need_are_not_downloaded(tmp_path):
    hub = FakeHub()
    fetch_checkpoint(tmp_path, hub)
    assert sorted(hub.copied) == NEEDED


def test_a_damaged_file_is_an_error_with_both_hashes_and_no_sums(tmp_path):
    name = "asset/Vocos.safetensors"
    with pytest.raises(CheckpointError) as caught:
        fetch_checkpoint(tmp_path, FakeHub(damage=[name]))
    found = sha256(tmp_path / name)
    assert found != sha256(TINY / name)
    for part in (str(tmp_path / name), found, sha256(TINY / name)):
        assert part in str(caught.value)
    assert not (tmp_path / "SHA256SUMS").exists()


def test_a_damaged_file_that_was_deleted_is_downloaded_again(tmp_path):
    name = "asset/Vocos.safetensors"
    with pytest.raises(CheckpointError):
        fetch_checkpoint(tmp_path, FakeHub(damage=[name]))
    (tmp_path / name).unlink()
    again = FakeHub()
    fetch_checkpoint(tmp_path, again)
    assert again.copied == [name]
    assert read_sums(tmp_path, CheckpointError)[name] == sha256(TINY / name)


@pytest.mark.parametrize("error", ["listing", "asset/DVAE.safetensors"])
def test_an_unreachable_hub_is_an_error_that_says_what_to_do_offline(error, tmp_path):
    with pytest.raises(CheckpointError) as caught:
        fetch_checkpoint(tmp_path / "ChatTTS", FakeHub(error=error))
    for part in (REPOSITORY, "ConnectionError", "HF_ENDPOINT", "resumes", "--checkpoint", "demo voice"):
        assert part in str(caught.value)
    assert not (tmp_path / "ChatTTS" / "SHA256SUMS").exists()


def test_a_second_call_resumes_in_the_same_folder(tmp_path):
    broken, whole = FakeHub(error="asset/DVAE.safetensors"), FakeHub()
    with pytest.raises(CheckpointError):
        fetch_checkpoint(tmp_path, broken)
    fetch_checkpoint(tmp_path, whole)
    assert broken.folders == whole.folders == [tmp_path]
    assert broken.copied == ["asset/DVAE.safetensors"]
    assert sorted([*broken.copied, *whole.copied]) == NEEDED
    load_checkpoint(tmp_path)


def test_a_complete_download_is_not_downloaded_again(tmp_path):
    fetch_checkpoint(tmp_path, FakeHub())
    again = FakeHub()
    fetch_checkpoint(tmp_path, again)
    assert again.copied == []


def test_a_file_the_hub_lists_but_does_not_deliver_is_an_error_that_names_it(tmp_path):
    with pytest.raises(CheckpointError, match=r"Embed\.safetensors"):
        fetch_checkpoint(tmp_path, FakeHub(drop=["asset/Embed.safetensors"]))
    assert not (tmp_path / "SHA256SUMS").exists()


def test_a_listing_without_the_models_files_is_an_error(tmp_path):
    with pytest.raises(CheckpointError):
        fetch_checkpoint(tmp_path, FakeHub(listed=UNWANTED))
    assert not (tmp_path / "SHA256SUMS").exists()


def test_a_full_disk_is_noticed_before_the_download(tmp_path):
    hub = FakeHub(size=10**17)
    with pytest.raises(TrtTtsError, match="disk space"):
        fetch_checkpoint(tmp_path / "ChatTTS", hub)
    assert hub.folders == []
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_a_usage_error(tmp_path):
    (tmp_path / "file").write_text("a file")
    hub = FakeHub()
    with pytest.raises(UsageError, match="file"):
        fetch_checkpoint(tmp_path / "file", hub)
    assert hub.folders == []
