"""What engine sets of every backend have in common: tables, graph descriptions, file hashes."""

from __future__ import annotations

import math
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import onnx

from trt_tts.files import sha256_of
from trt_tts.manifest import TEXT_EMBEDDING, VOICES, FileInfo, GraphInfo, TensorInfo
from trt_tts.manifest import TOKENIZER as SET_TOKENIZER
from trt_tts.model_config import ModelConfig
from trt_tts.voices import VoiceBook

from .checkpoint import TOKENIZER, Checkpoint, expected_shapes
from .export import graph_files


def describe_graph(folder: Path, name: str, resident: bool, export_error: float) -> GraphInfo:
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
        export_error=export_error,
    )


def _tensor(value: onnx.ValueInfoProto) -> TensorInfo:
    kind = value.type.tensor_type
    shape = tuple(dim.dim_param or dim.dim_value for dim in kind.shape.dim)
    return TensorInfo(value.name, str(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)), shape)


def write_tables(checkpoint: Checkpoint, folder: Path) -> None:
    """Copy the tokenizer and write the voices and the text embedding."""
    shutil.copyfile(checkpoint.path / TOKENIZER, folder / SET_TOKENIZER)
    VoiceBook(checkpoint.voices, checkpoint.statistics).save(folder / VOICES)
    table = checkpoint.tensors["embed"]["emb_text.weight"]
    with np.errstate(over="ignore"):
        half = table.astype(np.float16)
    # Checkpoints stored as float16 lose nothing in the half-sized table.
    np.save(folder / TEXT_EMBEDDING, half if np.array_equal(half.astype(np.float32), table) else table)


def bytes_needed(config: ModelConfig) -> int:
    """Of disk, at most: three times the float32 tensors: the exports, a smoothed and a typed or quantized graph."""
    return 3 * 4 * sum(math.prod(shape) for part in expected_shapes(config).values() for shape in part.values())


def hash_files(folder: Path) -> dict[str, FileInfo]:
    """Size and sha256 of every file of a set."""
    return {file.name: FileInfo(file.stat().st_size, sha256_of(file)) for file in sorted(folder.iterdir())}
