"""`trt-tts verify`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import fail, note, out, print_json, progress, table
from trt_tts.cli.quality_table import print_quality, quality_json
from trt_tts.cli.toolchain import load_chosen_checkpoint, require_build_extra, require_graph_tools
from trt_tts.engine import MOST_DEVICES, Engine
from trt_tts.errors import EngineSetError, UsageError
from trt_tts.flavour import load_flavour
from trt_tts.manifest import Manifest
from trt_tts.options import require_whole
from trt_tts.plan_info import Verification
from trt_tts.quality import GATES, coarsest
from trt_tts.selftest import speaks
from trt_tts.sets import choose_set
from trt_tts.target import require_runs_on, this_machine


def verify(
    folder: Annotated[Path | None, typer.Argument(help="Engine-set folder; without it as `say` chooses.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare the speech with another set's, or with fp32; needs no GPU.")
    ] = None,
    texts: Annotated[Path | None, typer.Option(help="With --against: sentences to compare on, one a line.")] = None,
    seeds: Annotated[int, typer.Option(help="With --against: how often each sentence is spoken for the WER.")] = 1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="With --against: checkpoint of the set, for fp32 and for GPU sets.")
    ] = None,
    device: Annotated[int, typer.Option(help="Index of the GPU.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Test an engine set: file hashes, then every graph on the GPU here against its FP32 results.

    A set for the CPU speaks a test instead. The result is written into the manifest of a TensorRT set.

    --against measures speech: a GPU set's graph is made again and simulated on the CPU.

    [bold]Examples[/bold]

      trt-tts verify engines/gtx1650-fp16

      trt-tts verify engines/gtx1650-int8 --against fp32

      trt-tts verify engines/cpu-int4 --against engines/cpu-fp32 --texts sentences.txt
    """
    require_whole("device", device, 0, MOST_DEVICES)
    require_whole("seeds", seeds, 1, 100)
    if against is None and (texts is not None or checkpoint is not None or seeds != 1):
        raise UsageError("--texts, --seeds and --checkpoint belong to --against; add --against fp32")
    path = choose_set(folder, any_backend=True).path
    manifest = Manifest.load(path)
    manifest.verify(path)
    note(f"{path}: {len(manifest.files)} files match their hashes")
    if against is not None:
        _compare(path, manifest, against, texts, seeds, checkpoint, as_json)
        return
    if manifest.quality is not None and not as_json:
        print_quality(manifest.quality, manifest.gate_precision)
    result = _speak(path) if manifest.backend == "cpu" else _test_on_gpu(path, manifest, device)
    if as_json:
        print_json({**asdict(result), "quality": asdict(manifest.quality) if manifest.quality else None})
    else:
        _print(result)
    if not result.verified:
        fail(result.reason if str(path) in result.reason else f"{path}: {result.reason}", 1)


def _compare(
    path: Path, manifest: Manifest, against: str, texts: Path | None, seeds: int, checkpoint: Path | None, as_json: bool
) -> None:
    require_build_extra()
    from trt_tts.builders.compare import FP32, SENTENCES, BuiltSet, Comparison, compare, require_checkpoint
    from trt_tts.builders.gate import way_out_of
    from trt_tts.calibration.dataset import read_texts

    other = None
    if against.lower() != FP32:
        other = BuiltSet(Path(against), Manifest.load(Path(against)))
        other.manifest.verify(other.path)
    sentences = read_texts(texts) if texts is not None else ()
    if texts is not None and not sentences:
        raise UsageError(f"{texts} holds no sentence to compare on")
    wanted = Comparison(BuiltSet(path, manifest), other, sentences, SENTENCES, tuple(range(seeds)))
    loaded = None
    if wanted.needs_checkpoint:
        require_graph_tools()
        loaded = load_chosen_checkpoint(checkpoint)
        require_checkpoint(loaded, manifest)
    with progress() as stage:
        found = compare(wanted, loaded, stage)
    precision = coarsest(item.manifest.gate_precision for item in wanted.sets)
    if as_json:
        print_json(quality_json(found, precision))
    else:
        print_quality(found, precision)
    if not GATES[precision].passes(found):
        advice = way_out_of(precision, found.simulated)
        fail(f"{path} is further from {found.reference} than {precision} may be. {advice}", 1)


def _speak(path: Path) -> Verification:
    with progress() as stage:
        stage("speaking a test")
        with Engine.load(path) as engine:
            spoken = engine.warm_up()
    good = speaks(spoken.samples)
    return Verification(good, "it speaks: finite, not silent" if good else "it speaks silence, or is not finite")


def _test_on_gpu(path: Path, manifest: Manifest, device: int) -> Verification:
    try:
        require_runs_on(this_machine(device), path, manifest)
    except EngineSetError as error:
        return Verification(False, str(error))
    from trt_tts.builders.verify import verify_folder

    flavour = load_flavour(manifest.target.runtime.split()[0])
    with progress() as stage:
        tested: Manifest = verify_folder(path, manifest, flavour, stage, device)
    tested.save(path)
    return tested.verification or Verification(False, "it was not run")


def _print(result: Verification) -> None:
    if result.results:
        rows = table(
            "Self-test", "graph", "profile", "shape", "dB above the difference from FP32", "differing codes", ""
        )
        for item in result.results:
            snr = "" if item.snr_db is None else f"{item.snr_db}"
            rows.add_row(item.graph, item.profile, item.shape, snr, str(item.differing_codes), item.problem or "")
        out.print(rows)
    if result.verified:
        note(result.reason)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(verify)
