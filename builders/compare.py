"""Compares the speech of an engine set with that of another set, or with FP32."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trt_tts.errors import EngineSetError, UsageError
from trt_tts.manifest import Manifest
from trt_tts.quality import Quality

from .checkpoint import Checkpoint
from .export import export_graph
from .gate import add_words, make_judge
from .gpt_typing import type_again
from .graphs.codec import codec_graph
from .graphs.gpt import gpt_graph
from .reference import Reference

FP32 = "fp32"


@dataclass(frozen=True)
class Comparison:
    """What to compare.

    Raises:
        UsageError: the sets come from different checkpoints, or a value is out of range.
    """

    tested: Path
    manifest: Manifest
    """Of `tested`."""
    against: Path | None
    """Another set; None for FP32 graphs, exported anew."""
    texts: tuple[str, ...] = ()
    """Sentences to judge on; without any the voice's own, as the build takes them."""
    sentences: int = 100
    """Held-out sentences of the demo voice that are listened to."""
    seeds: tuple[int, ...] = (0,)
    """Each sentence is spoken with each seed."""
    other: Manifest | None = field(init=False)
    """Of `against`."""

    def __post_init__(self) -> None:
        other = Manifest.load(self.against) if self.against else None
        object.__setattr__(self, "other", other)
        if other is not None and other.checkpoint.files != self.manifest.checkpoint.files:
            raise UsageError(
                f"{self.tested} was built from {self.manifest.checkpoint.name} and {self.against} from "
                f"{other.checkpoint.name}, whose files differ. Compare sets of one checkpoint"
            )

    @property
    def needs_checkpoint(self) -> bool:
        """FP32 and GPU sets are made again from it: a plan cannot run on a CPU."""
        sets = (self.manifest, self.other)
        return self.other is None or any(item is not None and item.backend != "cpu" for item in sets)


def require_checkpoint(checkpoint: Checkpoint, manifest: Manifest) -> None:
    """Raises UsageError unless the set was built from the checkpoint."""
    wrong = [name for name, digest in manifest.checkpoint.files.items() if checkpoint.hashes.get(name) != digest]
    if wrong:
        raise UsageError(
            f"the set was built from {manifest.checkpoint.name}, and {checkpoint.path} is another: {wrong[0]} differs. "
            f"Name the right one with --checkpoint"
        )


def compare(wanted: Comparison, checkpoint: Checkpoint | None, progress: Callable[[str], None]) -> Quality:
    """Measure everything the gates know.

    Args:
        wanted: the sets.
        checkpoint: where `wanted.needs_checkpoint` says so.
        progress: called with a line before each stage.

    Raises:
        EngineSetError: a GPU set's graph cannot be made again.
        UsageError: the voice can speak none of the texts.
    """
    with tempfile.TemporaryDirectory() as name:
        workshop = _Workshop(Path(name), checkpoint, progress)
        manifest, other = wanted.manifest, wanted.other
        tested = workshop.gpt(wanted.tested, manifest)
        if other is not None and wanted.against is not None:
            gpt, title = workshop.gpt(wanted.against, other), str(wanted.against)
        else:
            gpt, title = workshop.exact("gpt"), FP32
        cpu_set = next((path for path, item in _sets(wanted) if item.backend == "cpu"), None)
        reference = Reference(
            voice=manifest,
            hashes=manifest.checkpoint.files,
            tables=wanted.tested,
            gpt=gpt,
            codec=cpu_set / "codec.onnx" if cpu_set else workshop.exact("codec"),
            name=title,
            heads=cpu_set / "gpt.onnx" if cpu_set else workshop.exact("gpt"),
        )
        progress("speaking the sentences to compare on")
        found = make_judge(reference, wanted.texts).measure(tested, simulated=manifest.backend != "cpu")
        return add_words(found, reference, tested, progress, wanted.sentences, wanted.seeds)


def _sets(wanted: Comparison) -> Sequence[tuple[Path, Manifest]]:
    sets = [(wanted.tested, wanted.manifest)]
    if wanted.against is not None and wanted.other is not None:
        sets.append((wanted.against, wanted.other))
    return sets


class _Workshop:
    """Makes graphs that a CPU can run."""

    def __init__(self, folder: Path, checkpoint: Checkpoint | None, progress: Callable[[str], None]) -> None:
        self.folder, self.checkpoint, self.progress = folder, checkpoint, progress

    def gpt(self, path: Path, manifest: Manifest) -> Path:
        """A set's `gpt`, or its simulation."""
        if manifest.backend == "cpu":
            return path / "gpt.onnx"
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        return type_again(path, manifest, self._checkpoint(), folder, self.progress)

    def exact(self, name: str) -> Path:
        """An FP32 graph of the checkpoint."""
        file = self.folder / f"{name}.onnx"
        if not file.exists():
            self.progress(f"exporting {name} in FP32")
            make = {"gpt": gpt_graph, "codec": codec_graph}[name]
            export_graph(make(self._checkpoint()), self.folder)
        return file

    def _checkpoint(self) -> Checkpoint:
        if self.checkpoint is None:
            raise EngineSetError("this comparison needs the checkpoint the set was built from; name it: --checkpoint")
        return self.checkpoint
