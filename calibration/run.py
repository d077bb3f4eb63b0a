"""Speaks a dataset in FP32 and turns what the linears' inputs look like into INT8 scales."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.checkpoint import Checkpoint
from trt_tts.builders.engine_set import write_tables
from trt_tts.builders.export import export_graph
from trt_tts.builders.gate import judged_texts
from trt_tts.builders.graphs.codec import codec_graph
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.qdq import LARGEST
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import Spoken, speak
from trt_tts.builders.smoothing import Factors, write_smoothed
from trt_tts.errors import UsageError
from trt_tts.options import require_whole
from trt_tts.progress import Progress

from .activations import collect_inputs
from .dataset import FEWEST, Dataset
from .histogram import METHODS
from .linear_input import F32, LinearInput, int8_error
from .sensitivity import Damage, measure_sensitivity
from .smoothing_search import best_strength, smoothing_factors

BATCH = 8
STEPS = 192


@dataclass(frozen=True)
class CalibrationRequest:
    """How to calibrate.

    Raises:
        UsageError: a value is out of range.
    """

    method: str = "percentile"
    samples: int = 64
    """Sentences to speak, drawn from the dataset by `seed`."""
    seed: int = 0
    smooth: bool = True
    """Move outliers of the inputs into the weights where that lowers the error."""
    sensitivity: bool = False
    """Measure the damage that INT8 does in each place."""

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"method is {self.method!r}; allowed: {', '.join(METHODS)}")
        if not FEWEST <= self.samples <= 4096:
            raise UsageError(f"samples is {self.samples}; allowed: {FEWEST} to 4096")
        require_whole("seed", self.seed, 0, 2**32 - 1)


@dataclass(frozen=True)
class LinearReport:
    """What was found for one linear's input."""

    node: str
    strength: float
    """Of the smoothing; 0 for none."""
    largest: float
    threshold: float
    clipped: float
    """Share of the values beyond the threshold."""
    error: float
    """Power of the result's INT8 error over the power of the result."""


@dataclass(frozen=True)
class CalibrationRun:
    """A calibration and how it came about."""

    calibration: Calibration
    linears: tuple[LinearReport, ...]
    spoken: int
    skipped: int
    """Texts of the draw that this voice cannot speak."""
    positions: int
    """Prompt and generated positions together."""
    sensitivity: tuple[Damage, ...] = ()
    """The most damaging place first."""


def run_calibration(
    checkpoint: Checkpoint, dataset: Dataset, request: CalibrationRequest, progress: Progress
) -> CalibrationRun:
    """Speak the dataset as in real use, then read every linear's input from one pass per sentence.

    Smoothing is chosen on a first such pass, the scales are read from a second one over the smoothed graph. The same
    seed gives the same result.

    Raises:
        UsageError: too few of the texts can be spoken, or they all sound alike.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress("exporting gpt")
        export_graph(gpt_graph(checkpoint), folder)
        write_tables(checkpoint, folder)
        spoken, skipped = _speak(checkpoint, folder, dataset, request, progress)
        run = _calibrate(checkpoint, folder, spoken, request, progress)
        if request.sensitivity:
            run = _with_sensitivity(run, checkpoint, folder, spoken, progress)
    calibration = replace(run.calibration, dataset=dataset.source, dataset_sha256=dataset.sha256)
    return replace(run, calibration=calibration, skipped=skipped)


def _speak(
    checkpoint: Checkpoint, folder: Path, dataset: Dataset, request: CalibrationRequest, progress: Progress
) -> tuple[list[Spoken], int]:
    """Speak what is not kept for judging."""
    kept = set(judged_texts(checkpoint.hashes))
    texts = [text for text in dataset.texts if text not in kept]
    random.Random(request.seed).shuffle(texts)
    progress(f"speaking {request.samples} sentences in FP32")
    gpt, most = folder / "gpt.onnx", request.samples
    spoken, skipped = speak(checkpoint, folder, gpt, texts, STEPS, request.seed, most, rows=BATCH)
    if len(spoken) < FEWEST:
        raise UsageError(
            f"this voice can speak only {len(spoken)} of the texts in {dataset.source}; at least {FEWEST} are needed. "
            f"Take texts in its language and alphabet, or --dataset default"
        )
    return spoken, skipped


def _calibrate(
    checkpoint: Checkpoint,
    folder: Path,
    spoken: list[Spoken],
    request: CalibrationRequest,
    progress: Progress,
) -> CalibrationRun:
    sizes = checkpoint.config.gpt
    inputs = collect_inputs(folder / "gpt.onnx", sizes, spoken, progress)
    strengths = dict.fromkeys(inputs, 0.0)
    smoothing: Factors = {}
    if request.smooth:
        strengths = _strengths(inputs, request.method, progress)
        smoothing = {
            node: _rounded(smoothing_factors(inputs[node], value)) for node, value in strengths.items() if value
        }
        inputs = collect_inputs(write_smoothed(folder / "gpt.onnx", smoothing, folder), sizes, spoken, progress)
    linears = tuple(_report(node, item, strengths[node], request.method) for node, item in inputs.items())
    calibration = Calibration(
        method=request.method,
        checkpoint=checkpoint.hashes,
        scales={item.node: item.threshold / LARGEST for item in linears},
        errors={item.node: item.error for item in linears},
        smoothing=smoothing,
    )
    positions = sum(len(item.embedded) + len(item.codes) - 1 for item in spoken)
    return CalibrationRun(calibration, linears, len(spoken), 0, positions)


def _rounded(factors: F32) -> tuple[float, ...]:
    """To digits that are read in a file; any factor leaves the FP32 result as it is."""
    return tuple(float(f"{factor:.5g}") for factor in factors)


def _strengths(inputs: dict[str, LinearInput], method: str, progress: Progress) -> dict[str, float]:
    """Linear -> strength of its smoothing."""
    found = {}
    for i, (node, item) in enumerate(inputs.items()):
        progress(f"choosing smoothing {i + 1}/{len(inputs)}")
        found[node] = best_strength(item, METHODS[method])
    return found


def _with_sensitivity(
    run: CalibrationRun, checkpoint: Checkpoint, folder: Path, spoken: list[Spoken], progress: Progress
) -> CalibrationRun:
    progress("exporting codec")
    export_graph(codec_graph(checkpoint), folder)
    exact = folder / "gpt.onnx"
    reference = Reference(checkpoint, checkpoint.hashes, folder, exact, folder / "codec.onnx")
    source = write_smoothed(exact, run.calibration.smoothing, folder)
    work = folder / "typed"
    work.mkdir()
    found = measure_sensitivity(reference, source, run.calibration, spoken, work, progress)
    single = {item.place: item.kl for item in found if item.place in run.calibration.scales}
    return replace(run, calibration=replace(run.calibration, sensitivity=single), sensitivity=found)


def _report(node: str, inputs: LinearInput, strength: float, method: str) -> LinearReport:
    histogram = inputs.histogram
    threshold = METHODS[method](histogram)
    if not threshold > 0:
        raise UsageError(f"the input of {node} is zero for every text: the dataset or the checkpoint is unusable")
    error = int8_error(inputs.rows, inputs.weight, threshold / LARGEST)
    return LinearReport(node, strength, histogram.largest, threshold, histogram.clipped(threshold), error)
