"""TensorRT in the two packages it comes as. This is the only module that knows which one is loaded.

`tensorrt` 10.15 to 11 builds on the GPU it will run on. `tensorrt_rtx` also builds ahead of time, without a GPU.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from dataclasses import dataclass
from typing import Any

from trt_tts.errors import MissingDependencyError, UsageError
from trt_tts.shell import pip_install

TENSORRT, TENSORRT_RTX = "tensorrt", "tensorrt_rtx"
FLAVOURS = (TENSORRT, TENSORRT_RTX)
_DISTRIBUTIONS = {
    TENSORRT: ("tensorrt", "tensorrt-cu13", "tensorrt-cu12"),
    TENSORRT_RTX: ("tensorrt-rtx",),
}
_RELEASES = {TENSORRT: ">=10.15,<12", TENSORRT_RTX: ">=1.7"}
_BESIDE = ("cuda-bindings", "nvidia-ml-py")
"""Packages that running a set on a GPU needs besides."""


@dataclass(frozen=True)
class Flavour:
    """A loaded TensorRT."""

    package: str
    """Its import name, one of `FLAVOURS`."""
    version: str
    module: Any

    @property
    def builds_ahead(self) -> bool:
        """Whether it builds for a card that is not here."""
        return self.package == TENSORRT_RTX

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def installed_version(package: str) -> str | None:
    """The installed release of a flavour, without importing it; None where there is none."""
    for distribution in _DISTRIBUTIONS[package]:
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def install_command(package: str, version: str | None = None) -> str:
    """The command that installs a flavour, of one release or the newest."""
    release = _RELEASES[package] if version is None else f"=={version}"
    return pip_install((_DISTRIBUTIONS[package][0] + release, *_BESIDE))


def load_flavour(package: str) -> Flavour:
    """Import a flavour.

    Raises:
        UsageError: there is no such flavour.
        MissingDependencyError: it is not installed, or its libraries cannot be loaded.
    """
    if package not in FLAVOURS:
        raise UsageError(f"TensorRT flavour {package!r}; allowed: {', '.join(FLAVOURS)}")
    try:
        module = importlib.import_module(package)
    except (ImportError, OSError) as error:
        raise MissingDependencyError(
            f"{package} is needed for this and cannot be imported ({error}). Install it with: "
            f"{install_command(package)}"
        ) from error
    return Flavour(package, str(module.__version__), module)


def network_flags(flavour: Flavour) -> int:
    """Flags of a strongly typed network. Releases that know no other kind may lack the flag."""
    flag = getattr(flavour.module.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def create_context(flavour: Flavour, engine: Any, shapes_recur: bool) -> Any:
    """An execution context whose activation memory the caller gives; None where TensorRT makes none.

    TensorRT-RTX compiles kernels for the shapes it meets. By default it does so in the background: a CUDA graph would
    keep the kernels that stand in, and equal calls would differ. Here it compiles at once where `shapes_recur`, and
    never where every call may have another shape.
    """
    module = flavour.module
    user_managed = module.ExecutionContextAllocationStrategy.USER_MANAGED
    strategies = getattr(module, "DynamicShapesKernelSpecializationStrategy", None)
    if strategies is None:
        return engine.create_execution_context(user_managed)
    config = engine.create_runtime_config()
    config.set_execution_context_allocation_strategy(user_managed)
    config.dynamic_shapes_kernel_specialization_strategy = strategies.EAGER if shapes_recur else strategies.NONE
    return engine.create_execution_context(config)


def aim(flavour: Flavour, config: Any, compute_capability: str | None) -> None:
    """Set the card that a builder config builds for: by compute capability ("7.5"), or None for the GPU here.

    Raises:
        UsageError: the flavour does not build for that card from here.
    """
    if not flavour.builds_ahead:
        if compute_capability is not None:
            raise UsageError(f"{flavour} builds only for the GPU it runs on; use tensorrt_rtx to build ahead of time")
        return
    known = flavour.module.ComputeCapability
    name = "CURRENT" if compute_capability is None else f"SM{compute_capability.replace('.', '')}"
    if not hasattr(known, name):
        targets = [item for item in dir(known) if item.startswith("SM")]
        raise UsageError(f"{flavour} does not build for compute capability {compute_capability}; it knows: {targets}")
    config.num_compute_capabilities = 1
    config.set_compute_capability(getattr(known, name), 0)
