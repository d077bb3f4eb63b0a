"""Which backend and which TensorRT a build uses when the command line leaves it open."""

from __future__ import annotations

from dataclasses import dataclass

from trt_tts.errors import MissingDependencyError, UsageError
from trt_tts.flavour import FLAVOURS, TENSORRT, TENSORRT_RTX, install_command
from trt_tts.loading import BACKENDS
from trt_tts.target import Machine

from .cards import Card

CPU_COMMAND = "trt-tts build --backend cpu"
GPU_ONLY, CPU_ONLY = "fp16", "int4"
"""Precisions that one backend alone builds."""


@dataclass(frozen=True)
class BackendRequest:
    """What the command line said; None where it said nothing.

    Raises:
        UsageError: a name is unknown, or two options contradict each other.
    """

    backend: str = "auto"
    precision: str = "auto"
    card: str | None = None
    flavour: str | None = None
    calibrated: bool = False
    """A calibration file was named."""
    mapped: bool = False
    """A precision map was named."""
    device: int = 0

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(f"backend is {self.backend!r}; allowed: {', '.join(BACKENDS)}")
        if self.flavour is not None and self.flavour not in FLAVOURS:
            raise UsageError(f"tensorrt is {self.flavour!r}; allowed: {', '.join(FLAVOURS)}")
        if self.backend == "cpu" and self.wants_gpu:
            raise UsageError(
                "--card, --tensorrt, --device, --calibration, --precision-map and --precision fp16 are for "
                "--backend tensorrt"
            )
        if self.precision == CPU_ONLY and (self.backend == "tensorrt" or self.wants_gpu):
            raise UsageError(f"precision {CPU_ONLY} is built for the CPU only; allowed on GPUs: fp32, fp16, int8")

    @property
    def wants_gpu(self) -> bool:
        """Whether an option makes sense for a GPU only."""
        named = self.card or self.flavour or self.calibrated or self.mapped or self.device
        return bool(named or self.precision == GPU_ONLY)


@dataclass(frozen=True)
class BackendChoice:
    """What is built, and why."""

    backend: str
    """Either "cpu" or "tensorrt"."""
    reason: str
    flavour: str | None = None
    ahead: bool = False
    """For a card that is not here."""


def choose_backend(request: BackendRequest, machine: Machine, card: Card) -> BackendChoice:
    """The backend for a request on a machine; `card` is the one a GPU build would be for.

    Raises:
        MissingDependencyError: no TensorRT is installed; says what to install, and offers the CPU set.
        UsageError: the TensorRT that was asked for does not build for the card from here.
    """
    if request.backend == "cpu" or request.precision == CPU_ONLY:
        return BackendChoice("cpu", "asked for")
    if request.backend == "auto" and not request.wants_gpu:
        if machine.gpu is None:
            return BackendChoice("cpu", "no NVIDIA GPU answers here")
        if not machine.tensorrt:
            return BackendChoice(
                "cpu", f"TensorRT is not installed; for the {machine.gpu.name}: {install_command(TENSORRT)}"
            )
    here = machine.gpu is not None and machine.gpu.compute_capability == card.compute_capability
    flavour = request.flavour or _installed(machine, here)
    if flavour not in machine.tensorrt:
        raise MissingDependencyError(f"{flavour} is not installed. Install it with: {install_command(flavour)}")
    if flavour == TENSORRT and not here:
        raise UsageError(
            f"tensorrt builds only for the GPU it runs on, and {card.name} (compute capability "
            f"{card.compute_capability}) is not here. Use --tensorrt {TENSORRT_RTX} to build ahead of time"
        )
    where = "for the GPU here" if here else f"ahead of time for {card.name}, which is not here"
    return BackendChoice("tensorrt", f"{flavour} {machine.tensorrt[flavour]}, {where}", flavour, ahead=not here)


def _installed(machine: Machine, here: bool) -> str:
    """TensorRT proper on the card itself, else what builds ahead of time."""
    if here and TENSORRT in machine.tensorrt:
        return TENSORRT
    if TENSORRT_RTX in machine.tensorrt:
        return TENSORRT_RTX
    raise MissingDependencyError(
        f"no TensorRT is installed that builds from here. To build ahead of time on a machine without the GPU: "
        f"{install_command(TENSORRT_RTX)}. On the machine with the GPU: {install_command(TENSORRT)}. A set for this "
        f"CPU needs neither: {CPU_COMMAND}"
    )
