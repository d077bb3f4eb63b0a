"""`trt-tts inspect`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import megabytes, note, out, print_json, table
from trt_tts.cli.plan_tables import print_memory, print_plans, print_products
from trt_tts.cli.quality_table import print_quality
from trt_tts.manifest import GraphInfo, Manifest, TensorInfo
from trt_tts.model_config import STEPS_PER_SECOND
from trt_tts.sets import choose_set


def inspect(
    folder: Annotated[Path | None, typer.Argument(help="Engine-set folder; without it as `say` chooses.")] = None,
    tensors: Annotated[bool, typer.Option("--io", help="List inputs and outputs of each graph.")] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="List the products of each plan and their types.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the manifest as JSON.")] = False,
) -> None:
    """Show what an engine set holds, after checking its files against their hashes.

    [bold]Examples[/bold]

      trt-tts inspect engines/cpu-int8

      trt-tts inspect engines/cpu-int8 --io

      trt-tts inspect engines/gtx1650-fp16 --nodes
    """
    path = choose_set(folder, any_backend=True).path
    manifest = Manifest.load(path)
    manifest.verify(path)
    if as_json:
        print_json(asdict(manifest))
        return
    _print_summary(path, manifest)
    rows = table("Graphs", "graph", "loaded", "weights", "of which", "nodes", "fp32 export error")
    for name, graph in manifest.graphs.items():
        rows.add_row(
            name,
            "always" if graph.resident else "at first use",
            megabytes(sum(graph.weight_bytes.values())),
            ", ".join(f"{dtype} {megabytes(count)}" for dtype, count in graph.weight_bytes.items() if count > 1e4),
            _census(graph),
            f"{graph.export_error:.1e}",
        )
    out.print(rows)
    if manifest.backend == "tensorrt":
        print_plans(manifest)
        print_memory(manifest)
    if manifest.quality is not None:
        print_quality(manifest.quality, manifest.gate_precision)
    if nodes:
        print_products(manifest)
    if tensors:
        _print_tensors(manifest)
    files = table("Files", "file", "bytes", "sha256")
    for name, info in manifest.files.items():
        files.add_row(name, str(info.bytes), info.sha256)
    out.print(files)
    note("all files match their hashes")


def _print_summary(path: Path, manifest: Manifest) -> None:
    limits, gpt = manifest.limits, manifest.config.gpt
    cache = gpt.kv_bytes_per_position * limits.capacity * limits.max_batch
    if manifest.backend == "tensorrt" and manifest.precision != "fp32":
        cache //= 2
    rows = table("Engine set", "", "")
    for name, value in (
        ("folder", str(path.absolute())),
        ("checkpoint", manifest.checkpoint.name),
        ("backend", f"{manifest.backend} ({_runtime(manifest)})"),
        ("precision", manifest.precision),
        ("batch", f"up to {limits.max_batch}"),
        ("capacity", f"{limits.capacity} positions, {limits.capacity / STEPS_PER_SECOND:.1f} s with no prompt"),
        ("KV cache", f"{megabytes(cache)} when full"),
        ("built", f"{manifest.created} by trt-tts {manifest.product_version}"),
    ):
        rows.add_row(name, value)
    out.print(rows)


def _runtime(manifest: Manifest) -> str:
    target = manifest.target
    if manifest.backend == "cpu":
        return f"{target.runtime}, needs {target.minimum} or newer"
    return f"exactly {target.runtime}, compute capability {target.compute_capability}, {target.system}"


def _census(graph: GraphInfo) -> str:
    products = {op: n for op, n in graph.operators.items() if op.startswith(("MatMul", "Gemm", "Conv"))}
    shown = ", ".join(f"{n} {op}" for op, n in products.items())
    return f"{sum(graph.operators.values())}: {shown}"


def _print_tensors(manifest: Manifest) -> None:
    rows = table("Inputs and outputs", "graph", "", "name", "type", "shape")
    for name, graph in manifest.graphs.items():
        for direction, items in (("in", graph.inputs), ("out", graph.outputs)):
            for item in items:
                rows.add_row(name, direction, item.name, item.dtype, _shape(item))
    out.print(rows)


def _shape(item: TensorInfo) -> str:
    return "x".join(str(size) for size in item.shape)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(inspect)
