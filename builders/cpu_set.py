"""Builds an engine set for the CPU backend."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import onnx

from trt_tts.cpu.session import MINIMUM_RUNTIME
from trt_tts.engine import Engine
from trt_tts.errors import ExportError, UsageError
from trt_tts.files import new_folder, require_free_space, sha256_of
from trt_tts.manifest import (
    TEXT_EMBEDDING,
    VOICES,
    CheckpointInfo,
    FileInfo,
    GraphInfo,
    Limits,
    Manifest,
    Target,
    TensorInfo,
)
from trt_tts.manifest import TOKENIZER as SET_TOKENIZER
from trt_tts.model_config import STEPS_PER_SECOND, ModelConfig
from trt_tts.version import __version__
from trt_tts.voices import VoiceBook

from .checkpoint import TOKENIZER, Checkpoint
from .export import ExportReport, export_graph, graph_files, save_model
from .graphs.registry import GRAPHS
from .quantize import BITS, quantize_linears

PRECISIONS = ("fp32", *BITS)
DEFAULT_CAPACITY = 2048
PROMPT_ROOM = 256
"""Positions that --max-seconds leaves for the prompt."""
CAPACITY_STEP = 64
LARGEST_BATCH = 64
PREFILL_CHUNK = 128
LINEARS_PER_LAYER = 4
QUIETEST = 1e-5
LONGEST_SECONDS = 3600


@dataclass(frozen=True)
class CpuBuild:
    """What to build.

    Raises:
        UsageError: a value is out of range.
    """

    precision: str = "int8"
    max_batch: int = 1
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise UsageError(
                f"precision {self.precision!r} is not built for the CPU backend; allowed: {', '.join(PRECISIONS)}"
            )
        if not 1 <= self.max_batch <= LARGEST_BATCH:
            raise UsageError(f"max-batch is {self.max_batch}; allowed: 1 to {LARGEST_BATCH}")
        if self.max_seconds is not None and not 1 <= self.max_seconds <= LONGEST_SECONDS:
            raise UsageError(f"max-seconds is {self.max_seconds}; allowed: 1 to {LONGEST_SECONDS}")

    def capacity(self, config: ModelConfig) -> int:
        """Key-value positions per sequence: the prompt's room and the steps of `max_seconds`.

        Raises:
            UsageError: the model's positions do not reach that far.
        """
        most = config.gpt.max_position_embeddings
        if self.max_seconds is None:
            return min(DEFAULT_CAPACITY, most)
        wanted = PROMPT_ROOM + int(np.ceil(self.max_seconds * STEPS_PER_SECOND))
        rounded = -(-wanted // CAPACITY_STEP) * CAPACITY_STEP
        if rounded > most:
            longest = (most - PROMPT_ROOM) / STEPS_PER_SECOND
            raise UsageError(f"max-seconds is {self.max_seconds:g}; this model's positions allow at most {longest:.0f}")
        return rounded


def build_cpu_set(
    checkpoint: Checkpoint,
    target: Path,
    build: CpuBuild,
    force: bool = False,
    progress: Callable[[str], None] = lambda stage: None,
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
        TrtTtsError: the disk is too small.
    """
    capacity = build.capacity(checkpoint.config)
    require_free_space(target, _bytes_needed(checkpoint))
    with new_folder(target, force, Manifest.marks) as folder:
        graphs = {}
        for name, entry in GRAPHS.items():
            progress(f"exporting {name}")
            report = export_graph(entry.make(checkpoint), folder)
            if name == "gpt" and build.precision in BITS:
                progress(f"quantizing {name} to {build.precision}")
                model = quantize_linears(onnx.load(folder / f"{name}.onnx"), build.precision)
                _require_quantized(model, checkpoint.config)
                save_model(model, folder, name)
            graphs[name] = describe_graph(folder, name, entry.resident, report)
        progress("writing tables and hashes")
        _write_tables(checkpoint, folder)
        manifest = Manifest(
            product_version=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            backend="cpu",
            precision=build.precision,
            target=Target(runtime=_runtime(), minimum=MINIMUM_RUNTIME),
            limits=Limits(build.max_batch, capacity, PREFILL_CHUNK),
            checkpoint=CheckpointInfo(checkpoint.name, checkpoint.hashes),
            config=checkpoint.config,
            prompt=checkpoint.prompt,
            alphabet=checkpoint.alphabet,
            graphs=graphs,
            files={file.name: FileInfo(file.stat().st_size, sha256_of(file)) for file in sorted(folder.iterdir())},
        )
        manifest.save(folder)
        progress("speaking a test")
        _self_test(folder)
    return manifest


def _require_quantized(model: onnx.ModelProto, config: ModelConfig) -> None:
    found = sum(node.op_type == "MatMulNBits" for node in model.graph.node)
    wanted = LINEARS_PER_LAYER * config.gpt.num_hidden_layers
    if found != wanted:
        raise ExportError(f"{found} of the {wanted} linears were quantized. This is a defect: please report it")


def _self_test(folder: Path) -> None:
    """Load the finished set and speak: numbers that are not finite, or silence, fail the build."""
    with Engine.load(folder) as engine:
        samples = engine.warm_up().samples
    if not np.isfinite(samples).all() or np.abs(samples).max() < QUIETEST:
        raise ExportError("the built set speaks silence or noise that is not finite; nothing was written")


def describe_graph(folder: Path, name: str, resident: bool, report: ExportReport) -> GraphInfo:
    """Read back from the file what a graph holds."""
    model = onnx.load(folder / f"{name}.onnx", load_external_data=False)
    weights: Counter[str] = Counter()
    for tensor in model.graph.initializer:
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
        weights[str(dtype)] += int(np.prod(tensor.dims, dtype=np.int64)) * dtype.itemsize
    return GraphInfo(
        files=tuple(file.name for file in graph_files(folder, name)),
        resident=resident,
        inputs=tuple(_tensor(value) for value in model.graph.input),
        outputs=tuple(_tensor(value) for value in model.graph.output),
        operators=dict(sorted(Counter(node.op_type for node in model.graph.node).items())),
        weight_bytes=dict(weights),
        export_error=report.error,
    )


def _tensor(value: onnx.ValueInfoProto) -> TensorInfo:
    kind = value.type.tensor_type
    shape = tuple(dim.dim_param or dim.dim_value for dim in kind.shape.dim)
    return TensorInfo(value.name, str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)), shape)


def _write_tables(checkpoint: Checkpoint, folder: Path) -> None:
    shutil.copyfile(checkpoint.path / TOKENIZER, folder / SET_TOKENIZER)
    VoiceBook(checkpoint.voices, checkpoint.statistics).save(folder / VOICES)
    table = checkpoint.tensors["embed"]["emb_text.weight"]
    with np.errstate(over="ignore"):
        half = table.astype(np.float16)
    # Checkpoints stored as float16 lose nothing in the half-sized table.
    np.save(folder / TEXT_EMBEDDING, half if np.array_equal(half.astype(np.float32), table) else table)


def _bytes_needed(checkpoint: Checkpoint) -> int:
    """Twice the float32 tensors: a quantized graph is written beside its export."""
    return 2 * sum(tensor.nbytes for part in checkpoint.tensors.values() for tensor in part.values())


def _runtime() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"
