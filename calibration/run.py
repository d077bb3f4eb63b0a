"""Speaks a dataset in FP32 and turns what the linears' inputs look like into INT8 scales."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.checkpoint import Checkpoint
from trt_tts.builders.engine_set import write_tables
from trt_tts.builders.export import export_graph
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.samples import Spoken, forced_feed, speak
from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.errors import UsageError

from .dataset import FEWEST, Dataset
from .linear_input import LinearInput

METHODS = ("percentile", "max", "entropy")
PERCENT = 99.99
BATCH = 8
STEPS = 192
LARGEST = 127


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

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UsageError(f"method is {self.method!r}; allowed: {', '.join(METHODS)}")
        if not FEWEST <= self.samples <= 4096:
            raise UsageError(f"samples is {self.samples}; allowed: {FEWEST} to 4096")


@dataclass(frozen=True)
class LinearReport:
    """What was found for one linear's input."""

    node: str
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


def run_calibration(
    checkpoint: Checkpoint, dataset: Dataset, request: CalibrationRequest, progress: Callable[[str], None]
) -> CalibrationRun:
    """Speak the dataset as in real use, then read every linear's input from one pass per sentence.

    The pass is teacher-forced over the whole sequence: the same activations as step-by-step decoding, at a fraction of
    its cost. The same seed gives the same result.

    Raises:
        UsageError: too few of the texts can be spoken, or they all sound alike.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        progress("exporting gpt")
        export_graph(gpt_graph(checkpoint), folder)
        write_tables(checkpoint, folder)
        spoken, skipped = _speak(checkpoint, folder, dataset, request, progress)
        inputs = _collect(checkpoint, folder / "gpt.onnx", spoken, progress)
        linears = tuple(_report(node, item, request.method) for node, item in inputs.items())
    scales = {item.node: item.threshold / LARGEST for item in linears}
    errors = {item.node: item.error for item in linears}
    calibration = Calibration(request.method, checkpoint.hashes, scales, errors, dataset.source, dataset.sha256)
    positions = sum(len(item.embedded) + len(item.codes) - 1 for item in spoken)
    return CalibrationRun(calibration, linears, len(spoken), skipped, positions)


def _speak(
    checkpoint: Checkpoint, folder: Path, dataset: Dataset, request: CalibrationRequest, progress: Callable[[str], None]
) -> tuple[list[Spoken], int]:
    texts = list(dataset.texts)
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


def _collect(
    checkpoint: Checkpoint, file: Path, spoken: list[Spoken], progress: Callable[[str], None]
) -> dict[str, LinearInput]:
    """Linear -> what its input looks like."""
    inputs = _expose_inputs(file)
    session = open_session(file, usable_threads())
    found = {node: LinearInput(weight) for node, weight in _weights(file, list(inputs)).items()}
    gpt = checkpoint.config.gpt
    for i, item in enumerate(spoken):
        progress(f"reading activations {i + 1}/{len(spoken)}")
        names = list(dict.fromkeys(inputs.values()))
        feed = forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers)
        values = dict(zip(names, session.run(names, feed), strict=True))
        for node, tensor in inputs.items():
            found[node].add(values[tensor])
    return found


def _expose_inputs(file: Path) -> dict[str, str]:
    """Make the inputs of the layers' linears outputs of the graph; returns node -> tensor."""
    model = onnx.load(file, load_external_data=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    linears = [node for node in model.graph.node if node.op_type == "MatMul" and node.input[1] in weights]
    inputs = {node.name: node.input[0] for node in linears if node.name.startswith("layers.")}
    present = {value.name for value in model.graph.output}
    for tensor in dict.fromkeys(inputs.values()):
        if tensor not in present:
            model.graph.output.append(onnx.helper.make_tensor_value_info(tensor, onnx.TensorProto.FLOAT, None))
    onnx.save(model, file)
    return inputs


def _weights(file: Path, nodes: list[str]) -> dict[str, npt.NDArray[np.float32]]:
    """Linear -> weight [K, N]."""
    graph = onnx.load(file, load_external_data=False).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    names = {node.name: node.input[1] for node in graph.node if node.name in nodes}
    return {node: onnx.numpy_helper.to_array(stored[names[node]], str(file.parent)) for node in nodes}


def _report(node: str, inputs: LinearInput, method: str) -> LinearReport:
    histogram = inputs.histogram
    threshold = {
        "max": lambda: histogram.largest,
        "percentile": lambda: histogram.percentile(PERCENT),
        "entropy": histogram.entropy,
    }[method]()
    if not threshold > 0:
        raise UsageError(f"the input of {node} is zero for every text: the dataset or the checkpoint is unusable")
    error = inputs.error(threshold / LARGEST)
    return LinearReport(node, histogram.largest, threshold, histogram.clipped(threshold), error)
