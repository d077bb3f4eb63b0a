"""Which linears INT8 hurts most: each alone, then each kind and each layer together, everything else in FP16."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.quality import Judge
from trt_tts.builders.ranges import record
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import Spoken, feeds_of
from trt_tts.builders.typed_graph import TypeRequest, write_typed
from trt_tts.progress import Progress

MOST_SENTENCES = 16
_RANGE_SENTENCES = 4


@dataclass(frozen=True)
class Damage:
    """What INT8 does in one place."""

    place: str
    """A linear, `layers.N` or a kind of linear."""
    linears: int
    kl: float
    """Divergence of the code distributions from FP32's, in nats."""
    top1: float
    hidden_snr_db: float


def measure_sensitivity(
    reference: Reference,
    source: Path,
    calibration: Calibration,
    spoken: list[Spoken],
    work: Path,
    progress: Progress,
) -> tuple[Damage, ...]:
    """Type `gpt` anew for every place and compare its codes with FP32's, the most damaging place first.

    Args:
        reference: the FP32 graphs.
        source: the FP32 `gpt` with the calibration's smoothing.
        calibration: whose scales to use.
        spoken: sentences to compare on, of which the first `MOST_SENTENCES` are taken.
        work: folder for the graphs.
        progress: called with a line before each place.
    """
    spoken = spoken[:MOST_SENTENCES]
    judge = Judge(reference, spoken)
    ranges = record(source, feeds_of("gpt", reference.voice, spoken[:_RANGE_SENTENCES], []))
    found = []
    places = _places(list(calibration.scales))
    for i, (place, linears) in enumerate(places.items()):
        progress(f"measuring INT8 in one place {i + 1}/{len(places)}")
        others = PrecisionMap(tuple((node, "fp16") for node in calibration.scales if node not in linears))
        request = TypeRequest("int8", others, calibration, reference.voice.config.gpt.max_position_embeddings, True)
        typed = write_typed("gpt", source, work, request, ranges)
        quality = judge.measure(write_simulation(typed.file, work / "gpt-simulation.onnx"))
        found.append(Damage(place, len(linears), quality.kl, quality.top1, quality.hidden_snr_db))
    return tuple(sorted(found, key=lambda item: item.kl, reverse=True))


def _places(linears: list[str]) -> dict[str, list[str]]:
    """Place -> linears, each place once."""
    places = {node: [node] for node in linears}
    for node in linears:
        layer = ".".join(node.split(".")[:2])
        kind = node.split(".", 2)[2].removesuffix("/MatMul")
        places.setdefault(layer, []).append(node)
        places.setdefault(kind, []).append(node)
    return places
