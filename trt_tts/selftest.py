"""The self-test of a set: calls of its graphs with the results that the FP32 graphs gave on the CPU.

A build writes the cases into the set; they are run again on whatever is to be trusted, without the checkpoint.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.errors import EngineSetError
from trt_tts.progress import Progress

SELFTEST = "selftest.npz"
LEAST_SNR_DB = {"fp32": 60.0, "fp16": 30.0, "int8": 6.0}
"""Float results must be this much above their difference from FP32, by the set's precision. INT8 does far worse on the
random caches of the cases than on speech; ignoring them would still leave less than 1 dB."""
LARGEST_SNR_DB = 200.0
MOST_DIFFERING = 0.25
"""Share of codes that may differ in a graph that gives codes only."""
QUIETEST = 1e-5
"""Sound that stays below this is silence."""
WRITTEN = "written"
"""Name of the keys and values that a case's calls wrote, float32 [caches, rows, heads, positions, width]."""
Feed = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Case:
    """Calls of one graph, one after the other on the same caches."""

    graph: str
    profile: str
    """Of the optimization profile that the calls belong to."""
    shape: str
    """For people: "2 rows x 7 of 256"."""
    span: int
    """Key-value positions attended to; 0 for graphs without caches."""
    history: int
    """Positions of the caches that hold random values before the first call."""
    calls: tuple[Feed, ...]
    expected: tuple[Feed, ...]

    def cache(self, index: int, rows: int, heads: int, capacity: int, width: int) -> npt.NDArray[np.float32]:
        """The `index`-th cache (k_0, v_0, k_1, ...) before the first call, float32 [rows, heads, capacity, width]; all
        values are FP16 numbers. The keys are large enough for attention to tell positions apart."""
        cache = np.zeros((rows, heads, capacity, width), np.float32)
        random = np.random.Generator(np.random.Philox(key=index))
        spread = 2.0 if index % 2 == 0 else 1.0
        values = spread * random.standard_normal((rows, heads, self.history, width), np.float32)
        cache[:, :, : self.history] = values.astype(np.float16)
        return cache

    @property
    def written(self) -> slice:
        """The positions that the calls write."""
        return slice(self.history, self.history + sum(call["rows"].shape[1] for call in self.calls))


@dataclass(frozen=True)
class CaseResult:
    """How far one case is from FP32."""

    graph: str
    profile: str
    shape: str
    snr_db: float | None
    """Of the worst float result, 200 at most; None where there is none, or one is silent or not finite."""
    differing_codes: int
    """Of all drawn codes. Rounding can move a close decision: they fail a case only where it gives nothing else."""
    problem: str | None
    """Why it failed, None where it passed."""


def speaks(samples: npt.NDArray[Any]) -> bool:
    """Whether samples are finite and not silent."""
    return bool(np.isfinite(samples).all() and np.abs(samples).max() >= QUIETEST)


def judge(case: Case, found: tuple[Feed, ...], precision: str) -> CaseResult:
    """Compare what a case gave with what it should."""
    worst, differing, problem = math.inf, 0, None
    drawn = sum(value.size for expected in case.expected for value in expected.values() if value.dtype.kind == "i")
    for expected, values in zip(case.expected, found, strict=True):
        for name, wanted in expected.items():
            value = values[name]
            if wanted.dtype.kind == "i":
                differing += int((value != wanted).sum())
            elif not np.isfinite(value).all():
                problem = f"{name} holds NaN or infinity"
            elif np.abs(value).max() < QUIETEST < np.abs(wanted).max():
                problem = f"{name} is silent"
            else:
                silent = max(np.abs(wanted).max(), np.abs(value).max()) < QUIETEST
                worst = min(worst, LARGEST_SNR_DB if silent else snr_db(wanted, value))
    if problem is None and worst == math.inf and differing > MOST_DIFFERING * drawn:
        problem = f"{differing} of {drawn} codes differ from FP32's; at most {MOST_DIFFERING:.0%} may"
    if problem is not None or worst == math.inf:
        return CaseResult(case.graph, case.profile, case.shape, None, differing, problem)
    if worst < LEAST_SNR_DB[precision]:
        problem = f"{worst:.1f} dB above the difference from FP32; at least {LEAST_SNR_DB[precision]:g} is needed"
    return CaseResult(case.graph, case.profile, case.shape, round(worst, 1), differing, problem)


def snr_db(wanted: npt.NDArray[Any], value: npt.NDArray[Any]) -> float:
    """Power of `wanted` over the power of the difference, in dB, 200 at most."""
    noise = float(np.square(value.astype(np.float64) - wanted).sum())
    power = float(np.square(wanted.astype(np.float64)).sum())
    if noise <= power * 10 ** (-LARGEST_SNR_DB / 10):
        return LARGEST_SNR_DB
    return 10 * math.log10(max(power, 1e-300) / noise)


def run_cases(
    cases: list[Case], execute: Callable[[Case], tuple[Feed, ...]], precision: str, progress: Progress
) -> Iterator[CaseResult]:
    """Run and judge each case."""
    for case in cases:
        progress(f"testing {case.graph}, {case.profile}: {case.shape}")
        yield judge(case, execute(case), precision)


def save_cases(cases: list[Case], folder: Path) -> None:
    """Write `folder`/selftest.npz."""
    arrays: Feed = {}
    heads = []
    for i, case in enumerate(cases):
        head = {key: value for key, value in asdict(case).items() if key not in ("calls", "expected")}
        heads.append({**head, "count": len(case.calls)})
        for kind, feeds in (("calls", case.calls), ("expected", case.expected)):
            for j, feed in enumerate(feeds):
                arrays |= {f"{i}/{kind}/{j}/{name}": value for name, value in feed.items()}
    np.savez(folder / SELFTEST, cases=np.array(json.dumps(heads)), **arrays)  # type: ignore[arg-type]


def load_cases(folder: Path) -> list[Case]:
    """Read what `save_cases` wrote.

    Raises:
        EngineSetError: the file is missing or damaged.
    """
    try:
        with (folder / SELFTEST).open("rb") as file, np.load(file) as data:
            arrays = dict(data)
        heads = json.loads(str(arrays["cases"]))
        return [_case(i, head, arrays) for i, head in enumerate(heads)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
        raise EngineSetError(f"{folder / SELFTEST} is missing or damaged: {error}. Build the set again") from error


def _case(index: int, head: dict[str, Any], data: Feed) -> Case:
    count = head.pop("count")

    def feeds(kind: str) -> tuple[Feed, ...]:
        prefixes = [f"{index}/{kind}/{j}/" for j in range(count)]
        return tuple(
            {name.removeprefix(prefix): value for name, value in data.items() if name.startswith(prefix)}
            for prefix in prefixes
        )

    return Case(**head, calls=feeds("calls"), expected=feeds("expected"))
