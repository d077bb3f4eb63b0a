"""What a TensorRT builder says, put in order: memory figures, folded lines, causes of failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_MEMORY = re.compile(
    r"Total (Activation|Weights|Device Persistent|Host Persistent) Memory: (\d+)|(Max Scratch Memory): (\d+)"
)
_SKIPPED = re.compile(r"Skipping tactic|skipped tactic", re.IGNORECASE)
# TensorRT itself writes "insuficient" in some releases.
_NO_ROOM = re.compile(r"insuff?icient (memory|workspace)|memory is insufficient to use tactic", re.IGNORECASE)
_NO_TACTIC = re.compile(r"Could not find any implementation for node", re.IGNORECASE)
_OUT_OF_MEMORY = "the builder ran out of memory. Close other programs, or lower --max-batch or --max-seconds"
_CAUSES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"Cannot compile operation '(?P<node>[^']+)' for (?P<card>[^:]+): (?P<what>.+?)\.? In "),
        "{card} cannot run {node}: {what}. Build with --precision fp16, which keeps matrix products in FP16",
    ),
    (
        re.compile(rf"out of memory|OutOfMemory|{_NO_ROOM.pattern}|bad_alloc|Requested amount of GPU", re.I),
        _OUT_OF_MEMORY,
    ),
    (
        re.compile(r"No importer registered for op: (?P<node>\w+)|parsing node number \d+ \[(?P<other>\w+)", re.I),
        "this TensorRT does not know the operator {node}: tensorrt 10.15 or tensorrt_rtx 1.7 is needed, or a newer one",
    ),
    (
        re.compile(r"optimization profile", re.I),
        "an optimization profile was refused. This is a defect: please report it with the log",
    ),
    (
        re.compile(r"serialize.*version|version.*mismatch|incompatible version", re.I),
        "two TensorRT versions are mixed on this machine. Reinstall one of them",
    ),
    (
        re.compile(r"driver version is insufficient|cudaErrorInsufficientDriver|no CUDA-capable device", re.I),
        "no NVIDIA driver that this TensorRT can use answers here. Update the driver, or build ahead of time with "
        "tensorrt_rtx (pip install tensorrt-rtx)",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class LogLine:
    """One line and its severity: "error", "warning", "info" or "verbose"."""

    severity: str
    text: str


@dataclass(frozen=True)
class MemoryLines:
    """The builder's memory figures, in bytes; the lists hold one value per profile."""

    weights: int
    activations: tuple[int, ...]
    persistent: tuple[int, ...]
    scratch: int


def read_memory(lines: Iterable[LogLine]) -> MemoryLines:
    """Collect the builder's memory lines; what it does not say is 0."""
    found: dict[str, list[int]] = {}
    for line in lines:
        match = _MEMORY.search(line.text)
        if match:
            found.setdefault(match[1] or match[3], []).append(int(match[2] or match[4]))
    return MemoryLines(
        weights=max(found.get("Weights", [0])),
        activations=tuple(found.get("Activation", [])),
        persistent=tuple(found.get("Device Persistent", [])),
        scratch=max(found.get("Max Scratch Memory", [0])),
    )


def fold(lines: Iterable[LogLine]) -> Iterator[str]:
    """The log for people: verbose lines left out, skipped tactics counted, repetitions counted."""
    skipped, no_room, last, repeated = 0, 0, "", 0
    for line in lines:
        if _SKIPPED.search(line.text):
            skipped += 1
        elif _NO_ROOM.search(line.text) and line.severity != "error":  # comes before the line that skips it
            no_room += 1
        elif line.severity != "verbose":
            text = f"{line.severity}: {line.text}"
            if text == last:
                repeated += 1
                continue
            if repeated:
                yield f"(the line above, {repeated} more times)"
            yield text
            last, repeated = text, 0
    if repeated:
        yield f"(the line above, {repeated} more times)"
    if skipped or no_room:
        why = "; not all fit the free memory of the GPU, which is no error" if no_room else ""
        yield f"{max(skipped, no_room)} tactics were skipped{why}"


def cause_of(lines: Iterable[LogLine]) -> str:
    """Why a build failed and what to do next, from its error lines."""
    lines = list(lines)
    errors = [line.text for line in lines if line.severity == "error"]
    for pattern, advice in _CAUSES:
        for text in errors:
            match = pattern.search(text)
            if match:
                groups = {key: value for key, value in match.groupdict().items() if value}
                return advice.format_map({"node": groups.get("other", "?"), **groups})
    if any(map(_NO_TACTIC.search, errors)) and any(_NO_ROOM.search(line.text) for line in lines):
        return _OUT_OF_MEMORY  # every way to compute the node was skipped, which only warnings tell
    if errors:
        return f"TensorRT says: {errors[0]}"
    return "TensorRT gave no reason"
