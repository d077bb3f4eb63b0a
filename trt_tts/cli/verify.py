"""`trt-tts verify`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from trt_tts.cli.console import fail, note, out, print_json, progress, table
from trt_tts.engine import MOST_DEVICES, Engine
from trt_tts.flavour import load_flavour
from trt_tts.manifest import Manifest
from trt_tts.options import require_whole
from trt_tts.plan_info import Verification
from trt_tts.selftest import speaks
from trt_tts.sets import choose_set
from trt_tts.target import require_runs_on, this_machine


def verify(
    folder: Annotated[Path | None, typer.Argument(help="Engine-set folder; without it as `say` chooses.")] = None,
    device: Annotated[int, typer.Option(help="Index of the GPU.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Test an engine set on this machine: file hashes, then every graph against its FP32 results.

    A set for the CPU speaks a test instead. The result is written into the manifest of a TensorRT set.

    [bold]Example[/bold]

      trt-tts verify engines/gtx1650-fp16
    """
    require_whole("device", device, 0, MOST_DEVICES)
    path = choose_set(folder, any_backend=True).path
    manifest = Manifest.load(path)
    manifest.verify(path)
    note(f"{path}: {len(manifest.files)} files match their hashes")
    result = _speak(path) if manifest.backend == "cpu" else _test_on_gpu(path, manifest, device)
    if as_json:
        print_json(asdict(result))
    else:
        _print(result)
    if not result.verified:
        fail(f"{path}: {result.reason}", 1)


def _speak(path: Path) -> Verification:
    with progress() as stage:
        stage("speaking a test")
        with Engine.load(path) as engine:
            spoken = engine.warm_up()
    good = speaks(spoken.samples)
    return Verification(good, "it speaks: finite, not silent" if good else "it speaks silence, or is not finite")


def _test_on_gpu(path: Path, manifest: Manifest, device: int) -> Verification:
    require_runs_on(this_machine(device), path, manifest)
    from trt_tts.builders.verify import verify_folder

    flavour = load_flavour(manifest.target.runtime.split()[0], device)
    with progress() as stage:
        tested: Manifest = verify_folder(path, manifest, flavour, stage)
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
