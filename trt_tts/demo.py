"""The demo voice that ships inside the package."""

from collections.abc import Mapping
from pathlib import Path

from trt_tts.files import sha256_of


def demo_checkpoint() -> Path:
    """Folder of the demo voice's checkpoint."""
    return Path(__file__).parent / "demo_voice"


def is_demo_voice(hashes: Mapping[str, str]) -> bool:
    """Whether sha256 sums by path are those of the demo voice's files."""
    files = {name: demo_checkpoint() / name for name in hashes}
    return bool(files) and all(file.is_file() and sha256_of(file) == hashes[name] for name, file in files.items())


def heldout_sentences(count: int) -> list[str]:
    """`count` of the 100 sentences the demo voice was not trained on, spread evenly over the list."""
    lines = (demo_checkpoint() / "heldout.txt").read_text("utf-8").splitlines()
    count = min(count, len(lines))
    return [lines[i * len(lines) // count] for i in range(count)]
