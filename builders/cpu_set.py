"""Builds an engine set for the CPU backend."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import onnx

from trt_tts.cpu.session import MINIMUM_RUNTIME
from trt_tts.engine import Engine
from trt_tts.errors import ExportError, UsageError
from trt_tts.files import new_folder, require_free_space
from trt_tts.limits import PREFILL_CHUNK, capacity_for, require_limits
from trt_tts.manifest import (
    CheckpointInfo,
    Limits,
    Manifest,
    Target,
)
from trt_tts.model_config import ModelConfig
from trt_tts.progress import Progress
from trt_tts.quality import Quality
from trt_tts.selftest import speaks
from trt_tts.version import __version__

from .checkpoint import Checkpoint
from .engine_set import bytes_needed, describe_graph, hash_files, write_tables
from .export import export_graph, graph_files, save_model
from .free_memory import free_memory
from .gate import add_words, make_judge, require_quality
from .graphs.registry import GRAPHS
from .quantize import BITS, quantize_linears
from .reference import Reference

PRECISIONS = ("fp32", *BITS)
LINEARS_PER_LAYER = 4
EXACT = "fp32"
"""Folder of the FP32 `gpt` while a quantized set is built."""


@dataclass(frozen=True)
class CpuBuild:
    """What to build.

    Raises:
        UsageError: a value is out of range.
    """

    precision: str = "int8"
    max_batch: int = 1
    max_seconds: float | None = None
    gate: bool = True
    """Judge a quantized set on speech, and fail where the voice does not survive."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(
                f"precision {self.precision!r} is not built for the CPU backend; allowed: {', '.join(PRECISIONS)}"
            )
        require_limits(self.max_batch, self.max_seconds)


def build_cpu_set(
    checkpoint: Checkpoint,
    target: Path,
    build: CpuBuild,
    force: bool = False,
    progress: Progress = lambda stage: None,
) -> Manifest:
    """Export, quantize and write a complete set to `target`; on an error nothing is left there.

    Args:
        checkpoint: the weights.
        target: the set's folder.
        build: precision and limits.
        force: replace an existing folder.
        progress: called with a line before each stage.

    Raises:
        UsageError: `target` exists, or a limit cannot be met.
        ExportError: a graph does not compute what the checkpoint computes.
        QualityError: quantization changes the voice too much.
        TrtTtsError: the disk is too small.
    """
    capacity = capacity_for(checkpoint.config, build.max_seconds)
    require_free_space(target, bytes_needed(checkpoint.config))
    with new_folder(target, force, Manifest.marks) as folder:
        graphs = {}
        for name, entry in GRAPHS.items():
            progress(f"exporting {name}")
            report = export_graph(entry.make(checkpoint), folder)
            if name == "gpt" and build.precision in BITS:
                progress(f"quantizing {name} to {build.precision}")
                _quantize(folder, build.precision, checkpoint.config)
            graphs[name] = describe_graph(folder, name, entry.resident, report.error)
            free_memory()
        progress("writing tables and hashes")
        write_tables(checkpoint, folder)
        quality = _judge(checkpoint, folder, build, progress)
        manifest = Manifest(
            product_version=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            backend="cpu",
            precision=build.precision,
            target=Target(runtime=_runtime(), minimum=MINIMUM_RUNTIME),
            limits=Limits(build.max_batch, capacity, PREFILL_CHUNK, max_seconds=build.max_seconds),
            checkpoint=CheckpointInfo(checkpoint.name, checkpoint.hashes),
            config=checkpoint.config,
            prompt=checkpoint.prompt,
            alphabet=checkpoint.alphabet,
            graphs=graphs,
            files=hash_files(folder),
            quality=quality,
        )
        manifest.save(folder)
        progress("speaking a test")
        _self_test(folder)
    return manifest


def _quantize(folder: Path, precision: str, config: ModelConfig) -> None:
    """Put the quantized `gpt` in the place of the FP32 one, which moves to `EXACT`."""
    (folder / EXACT).mkdir()
    for file in graph_files(folder, "gpt"):
        file.rename(folder / EXACT / file.name)
    model = quantize_linears(onnx.load(folder / EXACT / "gpt.onnx"), precision)
    _require_quantized(model, config)
    save_model(model, folder, "gpt")


def _judge(checkpoint: Checkpoint, folder: Path, build: CpuBuild, progress: Progress) -> Quality | None:
    """What quantization did to the speech; removes the FP32 graph."""
    if build.precision not in BITS:
        return None
    quality = None
    if build.gate:
        exact, tested = folder / EXACT / "gpt.onnx", folder / "gpt.onnx"
        reference = Reference(checkpoint, checkpoint.hashes, folder, exact, folder / "codec.onnx")
        progress("comparing speech with FP32")
        quality = add_words(make_judge(reference).measure(tested), reference, tested, progress)
        require_quality(quality, build.precision)
    shutil.rmtree(folder / EXACT)
    return quality


def _require_quantized(model: onnx.ModelProto, config: ModelConfig) -> None:
    found = sum(node.op_type == "MatMulNBits" for node in model.graph.node)
    wanted = LINEARS_PER_LAYER * config.gpt.num_hidden_layers
    if found != wanted:
        raise ExportError(f"{found} of the {wanted} linears were quantized. This is a defect: please report it")


def _self_test(folder: Path) -> None:
    """Load the finished set and speak: numbers that are not finite, or silence, fail the build."""
    with Engine.load(folder) as engine:
        spoken = engine.warm_up()
    if not speaks(spoken.samples):
        raise ExportError("the built set speaks silence or noise that is not finite; nothing was written")


def _runtime() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"
