"""Which linears of `gpt` go to INT8: all of them, but the ones that hurt most stay FP16 until the voice survives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trt_tts.progress import Progress
from trt_tts.quality import GATES, Quality

from .free_memory import free_memory
from .gate import quality_error
from .half_simulation import write_simulation
from .precision_map import PrecisionMap
from .quality import Judge
from .typed_graph import TypedGraph, TypeRequest, write_typed

AIM_TOP1 = 0.97
"""What the choice works towards, as long as `LEAST_INT8` of the weights stay INT8: the gate is a floor, and other
sentences than the judged ones must clear it too."""
LEAST_INT8 = 0.75
MOST_KEPT = 0.5
"""Share of the linears that may stay FP16 to pass the gate: beyond it the set is hardly smaller than an FP16 one."""
JUDGED = "gpt-judged.onnx"
TRIES = 20
"""Tries that leaving out every linear would take."""


def type_for_int8(
    judge: Judge,
    source: Path,
    folder: Path,
    request: TypeRequest,
    ranges: dict[str, float],
    progress: Progress,
) -> tuple[TypedGraph, Quality]:
    """Type `gpt` with few linears left out of INT8: until it reaches the aim, or passes the gate with few in INT8.

    They are left out in the order of the damage they do: as measured by `calibrate --sensitivity`, else by the error
    that calibration found in their results. What the user's precision map says is kept.

    Args:
        judge: of the FP32 graph, on other sentences than those of the calibration.
        source: the FP32 graph, smoothed.
        folder: where the typed graph goes, and its simulation, `JUDGED`.
        request: how to type; with a calibration.
        ranges: as `to_half` takes them.
        progress: called with a line before each try.

    Raises:
        QualityError: the gate is not passed with half of these linears in FP16.
        as `write_typed` otherwise.
    """
    gate, ranked = GATES["int8"], _ranked(request)
    step = max(1, len(ranked) // TRIES)
    last = int(MOST_KEPT * len(ranked))
    for kept in range(0, last + 1, step):
        rules = PrecisionMap((*((node, "fp16") for node in ranked[:kept]), *request.rules.rules))
        progress(f"typing gpt, {kept} of {len(ranked)} linears left in FP16")
        typed = write_typed("gpt", source, folder, replace(request, rules=rules), ranges)
        found = judge.measure(write_simulation(typed.file, folder / JUDGED), simulated=True)
        too_few = kept + step > last or _share_after(typed, ranked[kept : kept + step]) < LEAST_INT8
        free_memory()
        if gate.passes(found) and (found.top1 >= AIM_TOP1 or too_few):
            return typed, found
    raise quality_error(found, "int8", f"with the {kept} worst of {len(ranked)} linears left in FP16 already")


def _share_after(typed: TypedGraph, leaving: list[str]) -> float:
    """Share of the linear weights in INT8 when these linears leave it too."""
    int8 = set(typed.int8) - set(leaving)
    return sum(size for node, size in typed.linears.items() if node in int8) / sum(typed.linears.values())


def _ranked(request: TypeRequest) -> list[str]:
    """The calibrated linears that the user's precision map leaves free, the most damaging first."""
    calibration = request.calibration
    damage = (calibration.sensitivity or calibration.errors) if calibration else {}
    free = [node for node in damage if request.rules.of(node) is None]
    return sorted(free, key=lambda node: damage[node], reverse=True)
