"""Types `gpt`, with a calibration if there is one, and does the same again for a set that was built."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from trt_tts.errors import EngineSetError
from trt_tts.files import sha256_of
from trt_tts.manifest import Manifest
from trt_tts.progress import Progress
from trt_tts.quality import Quality

from .calibration_data import Calibration, load_calibration
from .checkpoint import Checkpoint
from .export import export_graph, graph_files
from .free_memory import free_memory
from .gate import add_words, make_judge, require_quality
from .graphs.gpt import gpt_graph
from .graphs.registry import GRAPHS
from .half_simulation import write_simulation
from .int8_choice import JUDGED, type_for_int8
from .precision_map import PrecisionMap, load_precision_map, save_precision_map
from .ranges import Feed, record
from .reference import Reference
from .samples import feeds_of, speak_samples
from .smoothing import write_smoothed
from .typed_graph import TypedGraph, TypeRequest, write_typed

CALIBRATION_FILE = "calibration.json"
CHOSEN_MAP = "precision-map.toml"
"""What a GPU set was typed with, beside its plans: `type_again` reads both."""


def type_gpt(
    reference: Reference, work: Path, request: TypeRequest, feeds: Iterable[Feed], gate: bool, progress: Progress
) -> tuple[TypedGraph, Quality | None]:
    """Type the FP32 graph and, where linears are INT8, judge them.

    Args:
        reference: the FP32 graphs.
        work: folder for the typed graph and what it takes to make it.
        request: how.
        feeds: inputs that the range guard looks at.
        gate: whether to judge, and to leave linears out of INT8 until the voice survives.
        progress: called with a line before each stage.

    Raises:
        QualityError: the voice does not survive.
        as `write_typed` otherwise.
    """
    calibration = request.calibration
    source = write_smoothed(reference.gpt, calibration.smoothing if calibration else {}, work)
    progress("measuring the number ranges of gpt")
    ranges = record(source, feeds) if request.precision != "fp32" else {}
    free_memory()
    if gate and request.precision == "int8":
        progress("speaking the sentences that INT8 is judged on")
        typed, found = type_for_int8(make_judge(reference), source, work, request, ranges, progress)
    else:
        progress("typing gpt")
        typed = write_typed("gpt", source, work, request, ranges)
        if not (gate and typed.int8):
            return typed, None
        found = make_judge(reference).measure(write_simulation(typed.file, work / JUDGED), simulated=True)
    found = add_words(found, reference, work / JUDGED, progress)
    require_quality(found, "int8")
    return typed, found


def save_choice(
    folder: Path, rules: dict[str, PrecisionMap], calibration: Calibration | None, gpt: TypedGraph, precision: str
) -> None:
    """Write what typed a set, if anything did: the calibration, and a map with the user's rules and every linear that
    was calibrated and is not INT8."""
    if calibration is not None:
        calibration.save(folder / CALIBRATION_FILE)
    left: dict[str, str] = {}
    if calibration is not None and precision == "int8":
        left = {node: gpt.products[node] for node in calibration.scales if gpt.products[node] != "int8"}
    own = rules.get("gpt", PrecisionMap()).rules
    chosen = PrecisionMap((*(rule for rule in own if rule[0] not in left), *left.items()))
    maps = {**rules, "gpt": chosen}
    if any(item.rules for item in maps.values()) or precision == "int8":
        save_precision_map(folder / CHOSEN_MAP, maps)


def type_again(folder: Path, manifest: Manifest, checkpoint: Checkpoint, work: Path, progress: Progress) -> Path:
    """The graph that a GPU set's `gpt` plan was built from, made again and simulated.

    Args:
        folder: the set.
        manifest: of the set.
        checkpoint: that it was built from.
        work: an empty folder, for the files that come up.
        progress: called with a line before each stage.

    Returns:
        The simulation, as `write_simulation` makes it.

    Raises:
        EngineSetError: what came out is not what the plan was built from.
    """
    progress("exporting gpt as the set's")
    export_graph(gpt_graph(checkpoint, exact_cache=False), work)
    exact = work / "gpt.onnx"
    calibration = None
    if (folder / CALIBRATION_FILE).is_file():
        calibration = load_calibration(folder / CALIBRATION_FILE, checkpoint)
    rules = load_precision_map(folder / CHOSEN_MAP, tuple(GRAPHS)) if (folder / CHOSEN_MAP).is_file() else {}
    request = TypeRequest(
        manifest.precision, rules.get("gpt", PrecisionMap()), calibration, manifest.limits.capacity, fp32_products=True
    )
    feeds = feeds_of("gpt", checkpoint, speak_samples(checkpoint, folder, exact), [])
    typed_folder = work / "typed"
    typed_folder.mkdir()
    reference = Reference(checkpoint, checkpoint.hashes, folder, exact, exact)
    typed, _ = type_gpt(reference, typed_folder, request, feeds, gate=False, progress=progress)
    _require_same(folder, manifest, typed)
    simulation = write_simulation(typed.file, work / "gpt-simulation.onnx")
    shutil.rmtree(typed_folder)
    return simulation


def _require_same(folder: Path, manifest: Manifest, typed: TypedGraph) -> None:
    plan = manifest.graphs["gpt"].plan
    built_from = plan.onnx_sha256 if plan else {}
    made = {file.name: sha256_of(file) for file in graph_files(typed.file.parent, "gpt")}
    if made != built_from:
        raise EngineSetError(
            f"the typed gpt graph of {folder} cannot be made again here: its sha256 is not the one in the manifest, as "
            f"another version of trt-tts, torch or onnx built the set. Build it again to compare it"
        )
