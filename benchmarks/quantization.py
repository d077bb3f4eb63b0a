"""What quantization does to the demo voice: every precision and calibration method, judged on held-out sentences.

The choice of linears looks at 25 of the 100 held-out sentences; the codes are compared on the other 75, the words are
heard on all. Calibration uses none of them. GPU sets are simulated on the CPU. Takes about 25 minutes on two cores and
needs the dev extra.

    python benchmarks/quantization.py --markdown table.md
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import onnx

from trt_tts.builders.calibration_data import Calibration
from trt_tts.builders.checkpoint import Checkpoint, load_checkpoint
from trt_tts.builders.engine_set import describe_graph, write_tables
from trt_tts.builders.export import export_graph, save_model
from trt_tts.builders.gate import STEPS, judged_texts, make_judge
from trt_tts.builders.graphs.codec import codec_graph
from trt_tts.builders.graphs.gpt import gpt_graph
from trt_tts.builders.half_simulation import write_simulation
from trt_tts.builders.int8_choice import type_for_int8
from trt_tts.builders.precision_map import PrecisionMap
from trt_tts.builders.quality import Judge
from trt_tts.builders.quantize import quantize_linears
from trt_tts.builders.ranges import record
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import feeds_of, speak, speak_samples
from trt_tts.builders.smoothing import write_smoothed
from trt_tts.builders.typed_graph import TypedGraph, TypeRequest, write_typed
from trt_tts.builders.word_errors import Listener
from trt_tts.calibration.dataset import load_dataset
from trt_tts.calibration.histogram import METHODS
from trt_tts.calibration.run import CalibrationRequest, run_calibration
from trt_tts.demo import demo_checkpoint, heldout_sentences
from trt_tts.quality import Quality

CAPACITY = 512
FP32 = "FP32"


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    name: str
    file: Path
    """Graph that a CPU can run."""
    weight_bytes: int
    """Of `gpt`, as the set holds them."""
    int8_share: float | None
    """Of the layers' linear weights; None where they have fewer bits."""
    kept: tuple[str, ...] = ()
    """Linears that stayed FP16."""


@dataclass(frozen=True)
class Row:
    """A variant, measured."""

    variant: Variant
    quality: Quality


class Bench:
    """FP32 graphs, and the variants made of them."""

    def __init__(self, checkpoint: Checkpoint, folder: Path, samples: int) -> None:
        self.checkpoint, self.folder, self.samples = checkpoint, folder, samples
        for part in ("exact", "fixed", "typed", "work"):
            (folder / part).mkdir()
        export_graph(gpt_graph(checkpoint), folder / "exact")
        export_graph(codec_graph(checkpoint), folder / "exact")
        export_graph(gpt_graph(checkpoint, exact_cache=False), folder / "fixed")
        write_tables(checkpoint, folder / "exact")
        exact, codec = folder / "exact" / "gpt.onnx", folder / "exact" / "codec.onnx"
        self.reference = Reference(checkpoint, checkpoint.hashes, folder / "exact", exact, codec)
        self.fixed = folder / "fixed" / "gpt.onnx"

    def variants(self) -> Iterator[Variant]:
        """Each is valid until the next one is asked for."""
        yield Variant(FP32, self.reference.gpt, self._bytes(self.folder / "exact"), 0.0)
        yield self._typed("FP16", "fp16", None)
        for method in METHODS:
            for smooth in (False, True):
                calibration = self._calibrate(method, smooth)
                yield self._typed(f"INT8, {method}{', smoothed' if smooth else ''}", "int8", calibration)
        yield self._chosen(self._calibrate("percentile", smooth=True))
        for precision in ("int8", "int4"):
            yield self._weight_only(precision)

    def _calibrate(self, method: str, smooth: bool) -> Calibration:
        request = CalibrationRequest(method, self.samples, smooth=smooth)
        dataset = load_dataset("default", self.checkpoint.path)
        return run_calibration(self.checkpoint, dataset, request, lambda stage: None).calibration

    def _typed(self, name: str, precision: str, calibration: Calibration | None) -> Variant:
        source, ranges = self._source(calibration)
        request = TypeRequest(precision, PrecisionMap(), calibration, CAPACITY, fp32_products=False)
        return self._variant(name, write_typed("gpt", source, self.folder / "typed", request, ranges))

    def _chosen(self, calibration: Calibration) -> Variant:
        source, ranges = self._source(calibration)
        request = TypeRequest("int8", PrecisionMap(), calibration, CAPACITY, fp32_products=False)
        judge = make_judge(self.reference)
        typed, _ = type_for_int8(judge, source, self.folder / "typed", request, ranges, lambda stage: None)
        kept = tuple(node for node in calibration.scales if typed.products[node] != "int8")
        return replace(self._variant("INT8, the default: percentile, smoothed, chosen linears", typed), kept=kept)

    def _source(self, calibration: Calibration | None) -> tuple[Path, dict[str, float]]:
        smoothing = calibration.smoothing if calibration else {}
        source = write_smoothed(self.fixed, smoothing, self.folder / "work")
        spoken = speak_samples(self.checkpoint, self.reference.tables, self.reference.gpt)
        return source, record(source, feeds_of("gpt", self.checkpoint, spoken, []))

    def _variant(self, name: str, typed: TypedGraph) -> Variant:
        simulation = write_simulation(typed.file, self.folder / "work" / "simulation.onnx")
        return Variant(name, simulation, self._bytes(typed.file.parent), typed.int8_share)

    def _weight_only(self, precision: str) -> Variant:
        model = quantize_linears(onnx.load(self.reference.gpt), precision)
        save_model(model, self.folder / "work", "gpt")
        share = 1.0 if precision == "int8" else None
        name = f"CPU {precision} (weights in blocks)"
        return Variant(name, self.folder / "work" / "gpt.onnx", self._bytes(self.folder / "work"), share)

    def _bytes(self, folder: Path) -> int:
        return sum(describe_graph(folder, "gpt", True, 0.0).weight_bytes.values())


def measure(bench: Bench, sentences: int, seeds: tuple[int, ...], report: Callable[[Row], None]) -> list[Row]:
    """Judge every variant."""
    reference = bench.reference
    chosen_on = set(judged_texts(reference.hashes))
    texts = [text for text in heldout_sentences(100) if text not in chosen_on]
    spoken, _ = speak(reference.voice, reference.tables, reference.gpt, texts, STEPS, 0, len(texts), rows=8)
    judge, listener = Judge(reference, spoken), Listener(reference, sentences, seeds)
    rows = []
    for variant in bench.variants():
        found = judge.measure(variant.file)
        rows.append(Row(variant, replace(found, words=listener.compare(variant.file))))
        report(rows[-1])
    return rows


def markdown(rows: list[Row]) -> str:
    """The table, and the linears that the default left in FP16."""
    lines = [
        "| `gpt` | top-1 | KL, nats | hidden, dB | mel L1, Np | MCD, dB | WER | weights, MB | linears in INT8 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        variant, found = row.variant, row.quality
        wer = f"{found.words.rate:.1%}" if found.words else "not measured"
        distances = (
            f"{found.top1:.1%}", f"{found.kl:.5f}", f"{found.hidden_snr_db:.1f}", f"{found.mel_l1:.4f}",
            f"{found.mcd_db:.3f}",
        )  # fmt: skip
        share = "" if variant.int8_share is None else f"{variant.int8_share:.0%}"
        itself = variant.name == FP32
        cells = (*(("",) * 5 if itself else distances), wer, f"{variant.weight_bytes / 1e6:.2f}", share)
        lines.append(f"| {variant.name} | {' | '.join(cells)} |")
    kept = next((row.variant.kept for row in rows if row.variant.kept), ())
    return "\n".join([*lines, "", f"Left in FP16 by the default: {', '.join(kept) or 'none'}.", ""])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, default=100, help="held-out sentences to listen to")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--samples", type=int, default=64, help="sentences to calibrate on")
    parser.add_argument("--markdown", type=Path, help="write the table to this file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    checkpoint = load_checkpoint(demo_checkpoint())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(checkpoint, Path(folder), arguments.samples)
        show = (lambda row: None) if arguments.json else (lambda row: print(row.variant.name, row.quality, flush=True))
        rows = measure(bench, arguments.sentences, tuple(arguments.seeds), show)
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=1, default=str))
        return
    table = markdown(rows)
    print(table)
    if arguments.markdown:
        arguments.markdown.write_text(table, "utf-8")


if __name__ == "__main__":
    main()
