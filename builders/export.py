"""torch modules -> ONNX files, each compared with torch at several shapes."""

from __future__ import annotations

import ast
import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch

from trt_tts.errors import ExportError

from .graphs.graph import Graph
from .graphs.tensor_scatter import translation_table

OPSET = 24
FORBIDDEN_OPS = frozenset({"Trilu", "STFT", "Loop", "If", "Scan", "Attention"})
TOLERANCE = 1e-4
"""Largest accepted difference of a float output from torch, relative to that output's largest magnitude."""
EXTERNAL_ABOVE = 1024
"""Tensors larger than this many bytes go to the weights file beside the graph."""


@dataclass(frozen=True)
class ExportReport:
    """What an export produced and how far it is from torch."""

    name: str
    nodes: int
    bytes: int
    error: float
    """Largest difference of a float output from torch over all samples, relative to that output's largest magnitude."""
    mismatches: int
    """Integer outputs (codes, ids) that differ from torch, over all samples."""


def export_graph(graph: Graph, folder: Path) -> ExportReport:
    """Write `folder`/<name>.onnx and <name>.weights, and compare ONNX Runtime's results with torch's.

    Raises:
        ExportError: the results differ by more than the tolerance, or a forbidden operator got in.
    """
    model = _to_onnx(graph)
    _check_operators(graph.name, model)
    file, nodes = save_model(model, folder, graph.name), len(model.graph.node)
    del model  # its weights are in memory twice otherwise while the results are compared
    error, mismatches = _compare(graph, file)
    report = ExportReport(
        name=graph.name,
        nodes=nodes,
        bytes=sum(part.stat().st_size for part in graph_files(folder, graph.name)),
        error=error,
        mismatches=mismatches,
    )
    if not error <= TOLERANCE or mismatches:
        raise ExportError(
            f"graph {graph.name} does not compute what torch computes: relative error {error:.2e} "
            f"(allowed {TOLERANCE:.0e}), {mismatches} differing codes. This is a defect: please report it with "
            f"the versions that `trt-tts doctor` prints"
        )
    return report


def save_model(model: onnx.ModelProto, folder: Path, name: str) -> Path:
    """Write a model with its large tensors in one file beside it; returns the .onnx file."""
    file = folder / f"{name}.onnx"
    weights = folder / f"{name}.weights"
    weights.unlink(missing_ok=True)  # onnx appends to an existing file
    # Not `save_as_external_data`, which refuses when the current folder, of all places, holds a file of that name.
    for tensor in model.graph.initializer:
        if tensor.HasField("raw_data") and len(tensor.raw_data) >= EXTERNAL_ABOVE:
            onnx.external_data_helper.set_external_data(tensor, weights.name)
    onnx.save(model, file)
    if weights.exists():
        weights.chmod(0o644)
    return file


def graph_files(folder: Path, name: str) -> list[Path]:
    """The files of a graph that exist: the .onnx and, where it has large tensors, the .weights."""
    return [file for file in (folder / f"{name}.onnx", folder / f"{name}.weights") if file.is_file()]


def _to_onnx(graph: Graph) -> onnx.ModelProto:
    sample = graph.samples[0]
    dims = {name: torch.export.Dim(name) for axes in graph.dynamic.values() for name in axes.values()}
    shapes = [{axis: dims[dim] for axis, dim in graph.dynamic.get(name, {}).items()} for name in sample]
    if graph.caches:
        shapes = [*shapes[: -graph.caches], shapes[-graph.caches :]]  # type: ignore[list-item]
    with _quiet():
        program = torch.onnx.export(
            graph.module,
            graph.arguments(sample),
            dynamo=True,
            opset_version=OPSET,
            input_names=list(graph.inputs),
            output_names=list(graph.outputs),
            dynamic_shapes=tuple(shapes),
            custom_translation_table=translation_table(),
            verbose=False,
        )
    if program is None:
        raise ExportError(f"graph {graph.name}: torch's exporter returned nothing")
    model = program.model_proto
    _name_nodes(model)
    return model


def _name_nodes(model: onnx.ModelProto) -> None:
    """Name nodes `module.path/Operator` and their weights `module.path.weight`; drop traces of the build machine."""
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    renamed: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for node in model.graph.node:
        scope = _scope(node)
        name = f"{scope}/{node.op_type}" if scope else node.op_type
        seen[name] += 1
        node.name = name if seen[name] == 1 else f"{name}_{seen[name]}"
        if node.op_type == "MatMul" and node.input[1] in initializers and node.input[1] not in renamed:
            renamed[node.input[1]] = f"{scope}.weight"
        del node.metadata_props[:]
        node.doc_string = ""
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
    for old, new in renamed.items():
        initializers[old].name = new
    del model.graph.value_info[:]
    del model.graph.metadata_props[:]
    del model.metadata_props[:]


def _scope(node: onnx.NodeProto) -> str:
    for item in node.metadata_props:
        if item.key == "pkg.torch.onnx.name_scopes":
            scopes = ast.literal_eval(item.value)
            scope = str(scopes[-2]) if len(scopes) > 1 else ""
            return "" if scope.startswith("_") else scope
    return ""


def _check_operators(name: str, model: onnx.ModelProto) -> None:
    found = {node.op_type for node in model.graph.node}
    if found & FORBIDDEN_OPS:
        raise ExportError(f"graph {name} holds operators no TensorRT builds here: {sorted(found & FORBIDDEN_OPS)}")
    subgraphs = [node.name for node in model.graph.node for item in node.attribute if item.HasField("g")]
    if subgraphs or model.functions:
        raise ExportError(f"graph {name} holds subgraphs or functions: {subgraphs}")


def _compare(graph: Graph, file: Path) -> tuple[float, int]:
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"], sess_options=_quiet_session())
    worst, mismatches = 0.0, 0
    for sample in graph.samples:
        with torch.inference_mode():
            wanted = graph.module(*graph.arguments(sample))
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        found = session.run(list(graph.outputs), {name: value.numpy() for name, value in sample.items()})
        for expected, value in zip((tensor.numpy() for tensor in wanted), found, strict=True):
            if value.shape != expected.shape:
                raise ExportError(f"graph {graph.name}: shape {value.shape}, torch gives {expected.shape}")
            if expected.dtype.kind == "f":
                worst = max(worst, _relative_error(expected, value))
            else:
                mismatches += int((expected != value).sum())
    return worst, mismatches


def _relative_error(expected: np.ndarray[Any, Any], found: np.ndarray[Any, Any]) -> float:
    if not np.isfinite(found).all():
        return float("inf")
    return float(np.abs(expected - found).max() / max(float(np.abs(expected).max()), 1e-6))


def _quiet_session() -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # the comparison lets ONNX Runtime copy the cache, which it warns about
    return options


@contextmanager
def _quiet() -> Iterator[None]:
    """The exporter warns about torchvision and about dimension names it merges; neither concerns a user."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
