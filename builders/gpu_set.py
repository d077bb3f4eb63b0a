"""Builds an engine set for the TensorRT backend."""

from __future__ import annotations

import re
import shutil
import warnings
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import platformdirs

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.errors import BuildError, UsageError
from trt_tts.files import new_folder, require_free_space, sha256_of
from trt_tts.flavour import TENSORRT_RTX, Flavour, installed_version
from trt_tts.gpu.memory import engine_parts
from trt_tts.gpu_reading import read_gpu
from trt_tts.limits import require_limits
from trt_tts.manifest import CheckpointInfo, GraphInfo, Limits, Manifest, Target
from trt_tts.model_config import ModelConfig
from trt_tts.plan_info import MemoryLine, PlanInfo, ProfileInfo, Verification
from trt_tts.progress import Progress
from trt_tts.quality import Quality
from trt_tts.selftest import Case, Feed, judge, save_cases
from trt_tts.target import system_name
from trt_tts.version import __version__

from .calibration_data import Calibration
from .cards import Card
from .cases import execute_on_cpu, make_cases
from .checkpoint import Checkpoint
from .engine_set import bytes_needed, describe_graph, hash_files, write_tables
from .export import export_graph, graph_files
from .free_memory import free_memory
from .gpt_typing import save_choice, type_gpt
from .graphs.gpt import gpt_graph
from .graphs.registry import GRAPHS
from .half_simulation import write_simulation
from .plan_job import PlanJob, PlanReport
from .plan_process import run_plan_job
from .planner import MemoryPlan, plan_memory, require_fit
from .precision_map import PrecisionMap
from .profiles import profiles_of
from .ranges import record
from .reference import Reference
from .samples import Spoken, feeds_of, speak_samples
from .typed_graph import TypedGraph, TypeRequest, check_request, write_typed
from .verify import require_verified, verify_folder

MOST_STORED = 1.1
"""Built weights over expected ones: above it something is stored twice, or is wider than asked for."""
SIMULATED_SPAN, SIMULATED_ROWS = 512, 2
"""Larger cases are left to the card: a CPU takes long and much memory for them."""


@dataclass(frozen=True)
class GpuBuild:
    """What to build.

    Raises:
        UsageError: a value is out of range, or the card cannot run the precision.
    """

    precision: str
    card: Card
    flavour: Flavour
    ahead: bool
    """Build for a card that is not here."""
    max_batch: int = 1
    max_seconds: float | None = None
    device: int = 0
    rules: dict[str, PrecisionMap] = field(default_factory=dict)
    """Precision map of each graph that has one."""
    calibration: Calibration | None = None
    """Needed for INT8."""
    gate: bool = True
    """Judge INT8 on speech, and fail where the voice does not survive."""

    def __post_init__(self) -> None:
        require_limits(self.max_batch, self.max_seconds)
        if self.precision == "fp32" and not self.fp32_products:
            raise UsageError(
                f"precision fp32 is not built for {self.card.name} with {self.flavour}: TensorRT-RTX compiles no FP32 "
                f"matrix product for compute capability 7.5. Allowed: fp16, int8; or tensorrt on the card itself"
            )
        if self.precision == "int8" and self.calibration is None:
            raise UsageError("precision int8 needs a calibration. Make one: trt-tts calibrate --dataset corpus/")

    @property
    def fp32_products(self) -> bool:
        """Whether matrix products can be built in FP32 (`Cannot compile operation ... FP32 GEMM is not supported`)."""
        return self.card.compute_capability != "7.5" or self.flavour.package != TENSORRT_RTX


def build_gpu_set(
    checkpoint: Checkpoint, target: Path, build: GpuBuild, force: bool = False, progress: Progress = lambda stage: None
) -> Manifest:
    """Export, type, build and test a complete set; on an error nothing is left at `target`.

    Args:
        checkpoint: the weights.
        target: the set's folder.
        build: precision, card and limits.
        force: replace an existing folder.
        progress: called with a line before each stage.

    Raises:
        UsageError: `target` exists, or a limit cannot be met.
        CapacityError: the card is too small; says what fits.
        ExportError: a graph does not compute what the checkpoint computes.
        BuildError: INT8 changes the voice too much, TensorRT failed or built something else than was asked for, or
            the set fails its self-test.
    """
    plan = plan_memory(checkpoint.config, build.card, build.precision, build.max_batch, build.max_seconds)
    require_fit(checkpoint.config, plan)
    require_free_space(target, bytes_needed(checkpoint.config))
    with new_folder(target, force, Manifest.marks) as folder:
        builder = _SetBuilder(checkpoint, build, plan.limits, folder, progress)
        graphs, cases = builder.run()
        save_cases(cases, folder)
        progress("hashing")
        manifest = Manifest(
            product_version=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            backend="tensorrt",
            precision=build.precision,
            target=_target(build, builder.cuda),
            limits=plan.limits,
            checkpoint=CheckpointInfo(checkpoint.name, checkpoint.hashes),
            config=checkpoint.config,
            prompt=checkpoint.prompt,
            alphabet=checkpoint.alphabet,
            graphs=graphs,
            files=hash_files(folder),
            memory=_memory_lines(plan, checkpoint.config, graphs),
            verification=Verification(False, f"built ahead of time for {build.card.name}, which is not here"),
            quality=builder.quality,
        )
        if not build.ahead:
            manifest = verify_folder(folder, manifest, build.flavour, progress, build.device)
            require_verified(manifest)
        manifest.save(folder)
    return manifest


class _SetBuilder:
    """The graphs of one set, from torch to plans."""

    def __init__(
        self, checkpoint: Checkpoint, build: GpuBuild, limits: Limits, folder: Path, progress: Progress
    ) -> None:
        self.checkpoint, self.build, self.limits = checkpoint, build, limits
        self.folder, self.progress = folder, progress
        self.exported, self.typed = folder / "exported", folder / "typed"
        self.quality: Quality | None = None
        """What INT8 did to the speech."""
        self.cuda: str | None = None
        """Release of the CUDA libraries that built the plans."""

    def run(self) -> tuple[dict[str, GraphInfo], list[Case]]:
        """Everything but the manifest; the folder then holds plans and tables only."""
        errors = self._export()
        for name in GRAPHS:
            check_request(name, self.exported / f"{name}.onnx", self._type_request(name))
        write_tables(self.checkpoint, self.folder)
        self.progress("speaking samples in FP32")
        spoken = speak_samples(self.checkpoint, self.folder, self.exported / "gpt.onnx")
        codec = open_session(self.exported / "codec.onnx", usable_threads())
        wavs = [codec.run(["wav"], {"hidden": item.hidden[None]})[0] for item in spoken]
        del codec
        graphs, cases = {}, []
        for name in GRAPHS:
            feeds = feeds_of(name, self.checkpoint, spoken, wavs)
            graphs[name], own = self._build(name, errors[name], feeds, spoken)
            cases += own
            free_memory()
        shutil.rmtree(self.exported)
        shutil.rmtree(self.typed)
        return graphs, cases

    def _export(self) -> dict[str, float]:
        self.exported.mkdir()
        self.typed.mkdir()
        errors = {}
        for name, entry in GRAPHS.items():
            self.progress(f"exporting {name}")
            graph = gpt_graph(self.checkpoint, exact_cache=False) if name == "gpt" else entry.make(self.checkpoint)
            errors[name] = export_graph(graph, self.exported).error
            del graph
            free_memory()
        return errors

    def _build(
        self, name: str, export_error: float, feeds: list[Feed], spoken: list[Spoken]
    ) -> tuple[GraphInfo, list[Case]]:
        source, config = self.exported / f"{name}.onnx", self.checkpoint.config
        typed = self._type(name, source, feeds)
        self.progress(f"computing the self-test of {name}")
        cases = make_cases(name, typed.source, config, self.limits, feeds, spoken)
        free_memory()
        simulated = self._simulate(typed, cases)
        free_memory()
        info = describe_graph(self.typed, name, GRAPHS[name].resident, export_error)
        report = self._run_builder(name, typed)
        self.cuda = report.cuda
        _require_as_asked(info, typed, report, self.build.flavour)
        plan = self._describe_plan(name, typed, report, simulated)
        for file in (*self.typed.iterdir(), *graph_files(self.exported, name)):
            file.unlink()
        return replace(info, files=(f"{name}.plan",), plan=plan), cases

    def _type(self, name: str, source: Path, feeds: list[Feed]) -> TypedGraph:
        request, build = self._type_request(name), self.build
        if name == "gpt":
            codec = self.exported / "codec.onnx"
            reference = Reference(self.checkpoint, self.checkpoint.hashes, self.folder, source, codec)
            typed, self.quality = type_gpt(reference, self.typed, request, feeds, build.gate, self.progress)
            save_choice(self.folder, build.rules, build.calibration, typed, build.precision)
            return typed
        self.progress(f"measuring the number ranges of {name}")
        ranges = record(source, feeds) if build.precision != "fp32" else {}
        self.progress(f"typing {name}")
        return write_typed(name, source, self.typed, request, ranges)

    def _type_request(self, name: str) -> TypeRequest:
        build = self.build
        rules = build.rules.get(name, PrecisionMap())
        return TypeRequest(build.precision, rules, build.calibration, self.limits.capacity, build.fp32_products)

    def _simulate(self, typed: TypedGraph, cases: list[Case]) -> float | None:
        """Run the typed graph on the CPU, before minutes are spent on building it: dB against FP32."""
        simulation = write_simulation(typed.file, self.typed / f"{typed.file.stem}-simulation.onnx")
        session = open_session(simulation, usable_threads())
        worst = []
        for case in cases:
            rows = len(case.calls[0].get("start", ()))
            if case.span > SIMULATED_SPAN or rows > SIMULATED_ROWS:
                continue
            found = execute_on_cpu(case, session, self.checkpoint.config)
            result = judge(case, found, "int8" if typed.int8 else self.build.precision)
            if result.problem:
                raise BuildError(
                    f"{case.graph} in {self.build.precision}, simulated on the CPU, is no longer the FP32 graph: "
                    f"{case.profile}, {case.shape}: {result.problem}. Pin its layers with --precision-map, or take "
                    f"another --precision"
                )
            if result.snr_db is not None:
                worst.append(result.snr_db)
        return min(worst, default=None)

    def _run_builder(self, name: str, typed: TypedGraph) -> PlanReport:
        build = self.build
        job = PlanJob(
            graph=name,
            onnx=str(typed.file),
            plan=str(self.folder / f"{name}.plan"),
            flavour=build.flavour.package,
            compute_capability=build.card.compute_capability if build.ahead else None,
            profiles=profiles_of(name, self.checkpoint.config, self.limits),
            workspace=_workspace(build),
            device=build.device,
            timing_cache=None if build.ahead else str(timing_cache_file(build.card, build.flavour)),
        )
        self.progress(f"building {name} for {build.card.name}")
        return run_plan_job(job, self.folder / f"{name}.log", self.progress)

    def _describe_plan(self, name: str, typed: TypedGraph, report: PlanReport, simulated: float | None) -> PlanInfo:
        profiles = profiles_of(name, self.checkpoint.config, self.limits)
        memory = report.memory
        activations = _for_each(memory.activations, len(profiles))
        persistent = _for_each(memory.persistent, len(profiles))
        return PlanInfo(
            onnx_sha256={file.name: sha256_of(file) for file in graph_files(self.typed, name)},
            profiles=tuple(
                ProfileInfo(
                    profile.name,
                    {key: (item.least, item.typical, item.most) for key, item in profile.shapes.items()},
                    size,
                    kept,
                )
                for profile, size, kept in zip(profiles, activations, persistent, strict=True)
            ),
            weight_bytes=memory.weights,
            scratch_bytes=memory.scratch,
            products=typed.products,
            kept=typed.typing.kept,
            scaled=typed.typing.scaled,
            int8_layers=report.int8_layers,
            simulated_snr_db=simulated,
            int8_share=round(typed.int8_share, 4),
            calibration=self.build.calibration.title if typed.int8 and self.build.calibration else None,
            build_seconds=round(report.seconds, 1),
            build_peak_bytes=report.peak_bytes,
        )


def _for_each(reported: tuple[int, ...], profiles: int) -> tuple[int, ...]:
    """A figure per profile; where the builder does not list every one, the largest stands for all."""
    return reported if len(reported) == profiles else (max(reported, default=0),) * profiles


def _workspace(build: GpuBuild) -> int:
    """Bytes that tactics may use: what is left on the card, and on the GPU here when it is another of its kind."""
    gpu = None if build.ahead else read_gpu(build.device)
    free = build.card.budget if gpu is None else min(build.card.budget, gpu.memory - gpu.used)
    return max(free, 1 << 28)


def timing_cache_file(card: Card, flavour: Flavour) -> Path:
    """Where tactic timings of a card and TensorRT release are kept between builds."""
    folder = Path(platformdirs.user_cache_dir("trt-tts", appauthor=False)) / "timing"
    name = re.sub(r"\W+", "-", f"{card.key} {card.name} {flavour.package} {flavour.version}")
    return folder / f"{name}.cache"


def _require_as_asked(info: GraphInfo, typed: TypedGraph, report: PlanReport, flavour: Flavour) -> None:
    """Compare what the builder stored with what the graph holds."""
    expected, built = sum(info.weight_bytes.values()), report.memory.weights
    if built > MOST_STORED * expected + 1e6:
        finding = (
            f"{typed.file.stem} stores {built / 1e6:.1f} MB of weights where its graph holds {expected / 1e6:.1f} MB: "
            f"the builder kept some twice or widened them"
        )
        if flavour.builds_ahead:
            raise BuildError(f"{finding}. This is a defect: please report it with the versions `trt-tts doctor` prints")
        # TensorRT proper may keep a weight in a layout of its own for each profile: costly, not wrong.
        warnings.warn(finding, stacklevel=2)
    if typed.int8 and report.int8_layers == 0:
        raise BuildError(f"{typed.file.stem} was to hold {len(typed.int8)} INT8 layers and the plan has none")


def _memory_lines(plan: MemoryPlan, config: ModelConfig, graphs: dict[str, GraphInfo]) -> tuple[MemoryLine, ...]:
    """The plan's parts, with what they are by the builders' reports."""
    built = {part.name: part.bytes for part in engine_parts(graphs, config.gpt, plan.limits)}
    built |= {f"{name} weights": graph.plan.weight_bytes for name, graph in graphs.items() if graph.plan is not None}
    return tuple(MemoryLine(part.name, part.bytes, built.get(part.name), part.resident) for part in plan.parts)


def _target(build: GpuBuild, cuda: str | None) -> Target:
    gpu = None if build.ahead else read_gpu(build.device)
    # The release that the loader will compare: that of the package, not the module's own idea of it.
    release = installed_version(build.flavour.package) or build.flavour.version
    return Target(
        runtime=f"{build.flavour.package} {release}",
        minimum=release,
        card=build.card.key,
        compute_capability=build.card.compute_capability,
        system=system_name(),
        cuda=cuda,
        driver=gpu.driver if gpu else None,
    )
