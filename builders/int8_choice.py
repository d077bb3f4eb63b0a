"""Which linears of `gpt` go to INT8: all of them, but the ones that hurt most stay FP16 until the voice survives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trt_tts.errors import BuildError

from .calibration_data import Calibration
from .half_simulation import write_simulation
from .precision_map import PrecisionMap
from .quality import Agreement, Judge
from .typed_graph import TypedGraph, TypeRequest, write_typed

LEAST_TOP1 = 0.955
"""Share of codes whose likeliest candidate must be FP32's."""
MOST_KL = 0.01
"""Nats that the code distributions may be away from FP32's, in the mean."""
MOST_KEPT = 0.5
"""Share of the linears that may stay FP16: beyond it the set is hardly smaller than an FP16 one."""


def type_for_int8(
    judge: Judge,
    source: Path,
    folder: Path,
    request: TypeRequest,
    ranges: dict[str, float],
    progress: Callable[[str], None],
) -> tuple[TypedGraph, Agreement]:
    """Type `gpt` with as many linears in INT8 as the gate allows.

    The linears are left out in the order of the error that calibration measured on their results, one more at each
    try, later a quarter more. What the user's precision map says is kept.

    Args:
        judge: of the FP32 graph, on other sentences than those of the calibration.
        source: the FP32 graph.
        folder: where the typed graph goes.
        request: how to type; with a calibration.
        ranges: as `to_half` takes them.
        progress: called with a line before each try.

    Raises:
        BuildError: the gate is not passed with half of the linears in FP16.
        as `write_typed` otherwise.
    """
    ranked = _ranked(request.calibration)
    kept, tried = 0, []
    while True:
        rules = PrecisionMap((*((node, "fp16") for node in ranked[:kept]), *request.rules.rules))
        progress(f"typing gpt, {kept} of {len(ranked)} calibrated linears kept in FP16")
        typed = write_typed("gpt", source, folder, replace(request, rules=rules), ranges)
        found = judge.agreement(write_simulation(typed.file, folder / "gpt-judged.onnx"))
        if passes(found):
            return typed, found
        tried.append(f"{kept} kept: top-1 {found.top1:.1%}, KL {found.kl:.4f}")
        kept += max(1, kept // 4)
        if kept > MOST_KEPT * len(ranked):
            raise BuildError(
                f"INT8 changes this voice too much: at least {LEAST_TOP1:.1%} top-1 agreement with FP32 and at most "
                f"{MOST_KL} KL are needed, and keeping the worst linears in FP16 gave {'; '.join(tried)}. Calibrate "
                f"with more and fitting texts or another --method, or build with --precision fp16"
            )


def passes(found: Agreement) -> bool:
    """Whether a graph is near enough to FP32."""
    return found.top1 >= LEAST_TOP1 and found.kl <= MOST_KL


def _ranked(calibration: Calibration | None) -> list[str]:
    errors = calibration.errors if calibration else {}
    return sorted(errors, key=lambda node: errors[node], reverse=True)
