"""Compares the speech of an engine set with that of another set, or with FP32."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from trt_tts.errors import UsageError
from trt_tts.manifest import Manifest
from trt_tts.progress import Progress
from trt_tts.quality import Quality

from .checkpoint import Checkpoint
from .export import export_graph
from .gate import add_words, make_judge
from .gpt_typing import type_again
from .graphs.codec import codec_graph
from .graphs.gpt import gpt_graph
from .reference import Reference

FP32 = "fp32"
SENTENCES = 100


@dataclass(frozen=True)
class BuiltSet:
    """A set's folder and what its manifest says."""

    path: Path
    manifest: Manifest


@dataclass(frozen=True)
class Comparison:
    """What to compare.

    Raises:
        UsageError: the sets come from different checkpoints.
    """

    tested: BuiltSet
    against: BuiltSet | None
    """None for FP32 graphs, exported anew."""
    texts: tuple[str, ...]
    """Sentences to judge on; without any the voice's own, as the build takes them."""
    sentences: int
    """Held-out sentences of the demo voice that are listened to."""
    seeds: tuple[int, ...]
    """Each of these is spoken with each seed."""

    def __post_init__(self) -> None:
        first, *others = (item.manifest.checkpoint for item in self.sets)
        for other in others:
            if other.files != first.files:
                raise UsageError(
                    f"{self.tested.path} was built from {first.name} and the other set from {other.name}, whose files "
                    f"differ. Compare sets of one checkpoint"
                )

    @property
    def sets(self) -> tuple[BuiltSet, ...]:
        """The one or two sets."""
        return (self.tested,) if self.against is None else (self.tested, self.against)

    @property
    def needs_checkpoint(self) -> bool:
        """FP32 graphs and those of GPU sets are made from it: a plan cannot run on a CPU."""
        return self.against is None or any(item.manifest.backend != "cpu" for item in self.sets)


def require_checkpoint(checkpoint: Checkpoint, manifest: Manifest) -> None:
    """Raises UsageError unless the set was built from the checkpoint."""
    wrong = [name for name, digest in manifest.checkpoint.files.items() if checkpoint.hashes.get(name) != digest]
    if wrong:
        raise UsageError(
            f"the set was built from {manifest.checkpoint.name}, and {checkpoint.path} is another: {wrong[0]} differs. "
            f"Name the right one with --checkpoint"
        )


def compare(wanted: Comparison, checkpoint: Checkpoint | None, progress: Progress) -> Quality:
    """Measure everything the gates know.

    Args:
        wanted: the sets.
        checkpoint: needed where `wanted.needs_checkpoint` says so.
        progress: called with a line before each stage.

    Raises:
        EngineSetError: a GPU set's graph cannot be made again.
        UsageError: the voice can speak none of the texts, or the checkpoint is not given.
    """
    with tempfile.TemporaryDirectory() as name:
        workshop = _Workshop(Path(name), checkpoint, progress)
        tested = workshop.gpt(wanted.tested)
        against = wanted.against
        gpt, title = (workshop.exact("gpt"), FP32) if against is None else (workshop.gpt(against), str(against.path))
        manifest = wanted.tested.manifest
        # Codec and heads are FP32 in every CPU set.
        plain = next((item.path for item in wanted.sets if item.manifest.backend == "cpu"), None)
        reference = Reference(
            voice=manifest,
            hashes=manifest.checkpoint.files,
            tables=wanted.tested.path,
            gpt=gpt,
            codec=plain / "codec.onnx" if plain else workshop.exact("codec"),
            name=title,
            heads=plain / "gpt.onnx" if plain else workshop.exact("gpt"),
        )
        progress("speaking the sentences to compare on")
        found = make_judge(reference, wanted.texts).measure(tested, simulated=manifest.backend != "cpu")
        return add_words(found, reference, tested, progress, wanted.sentences, wanted.seeds)


class _Workshop:
    """Makes graphs that a CPU can run."""

    def __init__(self, folder: Path, checkpoint: Checkpoint | None, progress: Progress) -> None:
        self.folder, self.progress = folder, progress
        self._given = checkpoint

    def gpt(self, item: BuiltSet) -> Path:
        """A set's `gpt`, or its simulation."""
        if item.manifest.backend == "cpu":
            return item.path / "gpt.onnx"
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        return type_again(item.path, item.manifest, self._checkpoint, folder, self.progress)

    def exact(self, name: str) -> Path:
        """An FP32 graph of the checkpoint."""
        file = self.folder / f"{name}.onnx"
        if not file.exists():
            self.progress(f"exporting {name} in FP32")
            make = {"gpt": gpt_graph, "codec": codec_graph}[name]
            export_graph(make(self._checkpoint), self.folder)
        return file

    @property
    def _checkpoint(self) -> Checkpoint:
        if self._given is None:
            raise UsageError("this comparison needs the checkpoint that the set was built from: --checkpoint")
        return self._given
