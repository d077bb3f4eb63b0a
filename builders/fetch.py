"""Downloads the published ChatTTS checkpoint. Nothing else in the product touches the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trt_tts.doctor import FETCH_COMMAND
from trt_tts.errors import CheckpointError, MissingDependencyError, TrtTtsError, UsageError
from trt_tts.files import require_free_space, sha256_of, write_sums

from .checkpoint import TENSOR_FILES, TOKENIZER

REPOSITORY = "2Noise/ChatTTS"
PATTERNS = ("asset/*.safetensors", "asset/gpt/*", "asset/tokenizer/*", "asset/spk_stat.pt", "config.json")
_OFFLINE = (
    "Check the network, or set HF_ENDPOINT to a mirror and run the same command again: it resumes. Without a network, "
    f"copy the folder asset/ of {REPOSITORY} from another machine and name it with --checkpoint, "
    "or use the demo voice, which needs no download: trt-tts build"
)


def fetch_checkpoint(target: Path, hub: Any = None) -> Path:
    """Download into `target`, resuming what is there, and compare every file with the hub's hashes.

    Args:
        target: the folder; its SHA256SUMS is written last, so its presence marks a complete download.
        hub: the `huggingface_hub` module or what stands for it in tests.

    Raises:
        MissingDependencyError: huggingface_hub is not installed.
        CheckpointError: the hub cannot be reached, lacks a file, or a file is damaged.
    """
    hub = hub or _hub()
    if target.exists() and not target.is_dir():
        raise UsageError(f"{target} is a file, not a folder")
    try:
        files = _remote_files(hub)
        require_free_space(target, sum(size for size, _ in files.values()))
        hub.snapshot_download(REPOSITORY, allow_patterns=list(files), local_dir=target)
    except TrtTtsError:
        raise
    # The hub raises errors of several HTTP libraries, whichever its release uses.
    except Exception as error:
        raise CheckpointError(f"cannot download {REPOSITORY}: {type(error).__name__}: {error}. {_OFFLINE}") from error
    sums = {}
    for name, (_, expected) in files.items():
        if not (target / name).is_file():
            raise CheckpointError(f"the hub did not deliver {target / name}. Run the same command again")
        sums[name] = sha256_of(target / name)
        if expected is not None and sums[name] != expected:
            raise CheckpointError(
                f"{target / name} is damaged: sha256 {sums[name]}, the hub says {expected}. "
                f"Delete the file and run the same command again"
            )
    write_sums(target, sums)
    return target


def _remote_files(hub: Any) -> dict[str, tuple[int, str | None]]:
    """Name -> size and, for large files, sha256, as the hub lists them."""
    info = hub.HfApi().model_info(REPOSITORY, files_metadata=True)
    names = [item.rfilename for item in info.siblings]
    wanted = set(hub.utils.filter_repo_objects(names, allow_patterns=list(PATTERNS)))
    absent = [name for name in (*TENSOR_FILES.values(), TOKENIZER) if name not in wanted]
    if absent:
        raise CheckpointError(f"{REPOSITORY} on the hub lacks {', '.join(absent)}. {_OFFLINE}")
    return {
        item.rfilename: (item.size or 0, item.lfs.sha256 if item.lfs else None)
        for item in info.siblings
        if item.rfilename in wanted
    }


def _hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise MissingDependencyError(
            f"huggingface_hub is needed to download. Install it with: {FETCH_COMMAND} ({error})"
        ) from error
    return huggingface_hub
