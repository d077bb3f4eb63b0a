"""Tables about the plans of a TensorRT set."""

from __future__ import annotations

from collections import Counter

from trt_tts.cli.console import megabytes, note, out, table
from trt_tts.manifest import Manifest
from trt_tts.plan_info import PlanInfo


def print_plans(manifest: Manifest) -> None:
    """What was built: types by the graph, and the evidence for them in the plan."""
    rows = table(
        "Plans", "graph", "products by type", "weights in the graph", "stored in the plan", "INT8 layers seen",
        "activations by profile", "dB from FP32, simulated on the CPU", "build",
    )  # fmt: skip
    for name, graph in manifest.graphs.items():
        if graph.plan is None:
            continue
        plan = graph.plan
        activations = ", ".join(f"{item.name} {megabytes(item.activation_bytes)}" for item in plan.profiles)
        rows.add_row(
            name,
            ", ".join(f"{count} {kind}" for kind, count in sorted(Counter(plan.products.values()).items())),
            megabytes(sum(graph.weight_bytes.values())),
            megabytes(plan.weight_bytes) if plan.weight_bytes else "not reported",
            "cannot be opened by its builder" if plan.int8_layers is None else str(plan.int8_layers),
            activations,
            "codes only" if plan.simulated_snr_db is None else f"{plan.simulated_snr_db:g}",
            f"{plan.build_seconds:g} s, {plan.build_peak_bytes / 1e9:.1f} GB",
        )
    out.print(rows)
    for name, graph in manifest.graphs.items():
        if graph.plan is not None:
            _note_guard(name, graph.plan)


def _note_guard(name: str, plan: PlanInfo) -> None:
    if plan.int8_share:
        linears = [node for node in plan.products if node.startswith("layers.") and "_proj/" in node]
        kept = [node for node in linears if plan.products[node] != "int8"]
        note(f"{name}: {plan.int8_share:.0%} of the layers' linear weights are INT8, {plan.calibration}")
        note(f"{name}: linears that are not INT8: {', '.join(kept) or 'none'}")
    if plan.kept:
        note(f"{name}: kept in FP32 because of their range: {', '.join(plan.kept)}")
    if plan.scaled:
        note(f"{name}: computed on scaled values: {', '.join(f'{node} / 2^{e}' for node, e in plan.scaled.items())}")


def print_memory(manifest: Manifest) -> None:
    """Device memory, predicted and as the builder reports it, and whether the set was tested on a card."""
    rows = table("Device memory", "part", "predicted", "built", "")
    for line in manifest.memory:
        built = "" if line.built is None else megabytes(line.built)
        rows.add_row(line.part, megabytes(line.predicted), built, "" if line.resident else "at first use")
    out.print(rows)
    if manifest.verification is not None:
        state = "verified" if manifest.verification.verified else "not verified on a card"
        note(f"{state}: {manifest.verification.reason}")
        for precision, times in manifest.verification.times.items():
            shown = ", ".join(f"{profile} {1000 * seconds:.2f} ms" for profile, seconds in times.items())
            note(f"timed on the card, {precision}: {shown or 'failed its self-test'}")


def print_products(manifest: Manifest) -> None:
    """Every matrix product and convolution with its type: the names that a precision map uses."""
    rows = table("Products", "graph", "node", "type")
    for name, graph in manifest.graphs.items():
        for node, kind in (graph.plan.products if graph.plan else {}).items():
            rows.add_row(name, node, kind)
    out.print(rows)
    if manifest.backend != "tensorrt":
        note("products are recorded for TensorRT sets only")
