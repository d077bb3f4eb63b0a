"""A deserialized plan and its execution contexts, with every answer of TensorRT looked at."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.cuda.device import Device
from trt_tts.errors import DeviceMemoryError, EngineSetError, TrtTtsError
from trt_tts.flavour import Flavour, create_context
from trt_tts.manifest import GraphInfo

_OUT_OF_MEMORY = 2
_SHORT_OF_MEMORY = re.compile(r"out of memory|OutOfMemory|insufficient memory|bad_alloc", re.IGNORECASE)


class Plan:
    """One engine. Its contexts never run at the same time and share one block of activation memory."""

    def __init__(self, flavour: Flavour, device: Device, file: Path, graph: GraphInfo) -> None:
        """Deserialize `file`; its weights go to the GPU.

        Args:
            flavour: the TensorRT that built it.
            device: with its context current.
            file: the plan.
            graph: what the manifest says of it.

        Raises:
            DeviceMemoryError: the weights do not fit.
            EngineSetError: TensorRT refuses the plan, or it is not what the manifest says.
        """
        self.file, self.device, self._trt = file, device, flavour.module
        self._flavour, self.log = flavour, _log_of(flavour.module)
        self.log.take()
        self._runtime = flavour.module.Runtime(self.log.logger)
        self._engine = self._runtime.deserialize_cuda_engine(file.read_bytes())
        if self._engine is None:
            raise self.failure(f"{flavour} cannot open {file}", "Build the set again on this machine: trt-tts build")
        self._contexts: list[Context] = []
        try:
            self.profiles = _profile_names(graph)
            self._require_same(graph)
        except EngineSetError:
            self.close()  # not when the error is dropped: the context that the engine lives in is gone by then
            raise

    def activation_bytes(self, profile: str) -> int:
        """Of the shared block, for a context of this profile."""
        return int(self._engine.get_device_memory_size_for_profile_v2(self.profiles.index(profile)))

    def context(self, profile: str, shapes_recur: bool = False) -> Context:
        """A context for one profile, without activation memory; `shapes_recur` where it sees a single shape.

        Raises:
            DeviceMemoryError: not enough memory for what it keeps.
            EngineSetError: the profile cannot be selected.
        """
        self.log.take()
        made = Context(self, create_context(self._flavour, self._engine, shapes_recur), profile)
        self._contexts.append(made)
        made.select()
        return made

    def shape_range(self, tensor: str, profile: int) -> str:
        """The shapes a profile allows, for people."""
        least, _, most = (tuple(shape) for shape in self._engine.get_tensor_profile_shape(tensor, profile))
        return f"{least} to {most}"

    def close(self) -> None:
        """Free the contexts and the weights."""
        for context in self._contexts:
            context.close()
        self._contexts.clear()
        self._engine = self._runtime = None

    def failure(self, what: str, advice: str) -> TrtTtsError:
        """The error for what TensorRT could not do, with its own words."""
        said = self.log.take()
        if _SHORT_OF_MEMORY.search(said):
            return DeviceMemoryError(
                f"{what}: the GPU is out of memory ({said}). Close other programs that use it", _OUT_OF_MEMORY
            )
        return EngineSetError(f"{what}: {said or 'TensorRT gives no reason'}. {advice}")

    def _require_same(self, graph: GraphInfo) -> None:
        """A plan that another graph was built into would read and write the wrong memory."""
        wanted = {item.name: (item.dtype, item.shape) for item in (*graph.inputs, *graph.outputs)}
        found, count = self._tensors(), self._engine.num_optimization_profiles
        if found.keys() != wanted.keys():
            raise EngineSetError(f"{self.file} has the tensors {sorted(found)}, its manifest {sorted(wanted)}")
        for name, (dtype, shape) in wanted.items():
            kind, fixed = found[name]
            if kind != dtype or not _may_be(fixed, shape):
                raise EngineSetError(f"{self.file}: {name} is {kind} {fixed}, by its manifest {dtype} {shape}")
        if count != len(self.profiles):
            raise EngineSetError(f"{self.file} has {count} profiles, by its manifest {len(self.profiles)}")

    def _tensors(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Type and shape by name. No error may leave a frame that holds the engine: it would outlive its context."""
        engine, found = self._engine, {}
        for name in (engine.get_tensor_name(i) for i in range(engine.num_io_tensors)):
            kind = np.dtype(self._trt.nptype(engine.get_tensor_dtype(name)))
            found[name] = str(kind), tuple(engine.get_tensor_shape(name))
        return found


class Context:
    """An execution context with its shapes and addresses."""

    def __init__(self, plan: Plan, context: Any, profile: str) -> None:
        self.plan, self.profile, self._context = plan, profile, context
        self._index = plan.profiles.index(profile)
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._addresses: dict[str, int] = {}

    def select(self) -> None:
        """Select the profile. Errors as `Plan.context`."""
        if self._context is None:
            what = f"TensorRT makes no execution context of {self.plan.file.name}"
            raise self.plan.failure(what, "Close other programs that use the GPU")
        if not self._context.set_optimization_profile_async(self._index, self.plan.device.stream):
            what = f"{self.plan.file}: profile {self.profile} cannot be selected"
            raise self.plan.failure(what, "Build the set again: trt-tts build")

    def lend(self, address: int, size: int) -> None:
        """Give it the activation block."""
        self._context.set_device_memory(address, size)

    def bind(self, shapes: Mapping[str, tuple[int, ...]], addresses: Mapping[str, int]) -> None:
        """Set input shapes and tensor addresses; what is set already is left alone.

        Raises:
            EngineSetError: a shape is outside the profile; names the tensor, the shape and the range.
        """
        for name, shape in shapes.items():
            if self._shapes.get(name) != shape:
                if not self._context.set_input_shape(name, shape):
                    allowed = self.plan.shape_range(name, self._index)
                    raise EngineSetError(
                        f"{self.plan.file.name}, {self.profile}: {name} has shape {shape}; allowed: {allowed}. "
                        f"{self.plan.log.take()}"
                    )
                self._shapes[name] = shape
        for name, address in addresses.items():
            if self._addresses.get(name) != address:
                if not self._context.set_tensor_address(name, address):
                    raise EngineSetError(f"{self.plan.file.name}: TensorRT refuses the buffer of {name}")
                self._addresses[name] = address

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an output, once all input shapes are set."""
        return tuple(self._context.get_tensor_shape(name))

    def enqueue(self) -> None:
        """Queue one run on the device's stream.

        Raises:
            EngineSetError: TensorRT refuses.
            DeviceMemoryError: it ran out of memory.
        """
        if not self._context.execute_async_v3(self.plan.device.stream):
            what = f"TensorRT cannot run {self.plan.file.name}, {self.profile}"
            raise self.plan.failure(what, "Test the set: trt-tts verify")

    def close(self) -> None:
        """Free what it keeps on the GPU."""
        self._context = None


@functools.cache
def _log_of(trt: Any) -> _Log:
    """TensorRT keeps the first logger it is given for the whole process, so there is one, for good."""
    return _Log(trt)


class _Log:
    """Keeps what TensorRT says about errors, for messages."""

    def __init__(self, trt: Any) -> None:
        lines: list[str] = []

        class Logger(trt.ILogger):  # type: ignore[misc]
            def __init__(self) -> None:
                trt.ILogger.__init__(self)

            def log(self, severity: Any, text: str) -> None:
                if int(severity) <= int(trt.ILogger.Severity.ERROR):
                    lines.append(text)

        self.logger, self._lines = Logger(), lines

    def take(self) -> str:
        """The errors since the last call, joined."""
        said, self._lines[:] = "; ".join(dict.fromkeys(self._lines)), []
        return said


def _may_be(found: tuple[int, ...], wanted: tuple[int | str, ...]) -> bool:
    """Whether the shapes agree where both are fixed."""
    if len(found) != len(wanted):
        return False
    return all(isinstance(size, str) or other in (size, -1) for other, size in zip(found, wanted, strict=True))


def _profile_names(graph: GraphInfo) -> tuple[str, ...]:
    if graph.plan is None:
        raise EngineSetError("the manifest of this TensorRT set describes no plan. Build it again: trt-tts build")
    return tuple(profile.name for profile in graph.plan.profiles)
