"""The gate as a table, the same for build, inspect and verify."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from trt_tts.cli.console import out, table
from trt_tts.quality import GATES, Quality

_STATES = {True: "ok", False: "beyond the limit", None: "not measured"}


def print_quality(found: Quality, precision: str) -> None:
    """Every measure with its limit."""
    how = ", simulated on the CPU" if found.simulated else ""
    rows = table(f"Speech compared with {found.reference}: {found.positions} steps{how}", "", "found", "allowed", "")
    for line in GATES[precision].lines(found):
        rows.add_row(line.measure, line.value, line.limit, _STATES[line.passed])
    out.print(rows)


def quality_json(found: Quality, precision: str) -> dict[str, Any]:
    """The measures, and the gate's verdict on each."""
    gate = GATES[precision]
    return {
        "passed": gate.passes(found),
        "quality": asdict(found),
        "gate": [asdict(line) for line in gate.lines(found)],
    }
