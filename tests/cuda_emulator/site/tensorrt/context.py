"""Execution contexts: they collect shapes and addresses, and queue launches."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING

from . import device
from .checks import RefusedError, require_aligned, require_in_profile, require_memory
from .device import DeviceBlock
from .kinds import ExecutionContextAllocationStrategy
from .launch import Launch, Region
from .plan import PERSISTENT, Profile, Tensor
from .program import Binding
from .shapes import Names, Shape, evaluate, learn

if TYPE_CHECKING:
    from .engine import ICudaEngine


def _logs_refusals(method: Callable[..., None]) -> Callable[..., bool]:
    """Make a method tell by False what it refused, and log why."""

    @wraps(method)
    def answer(self: IExecutionContext, *arguments: object, **named: object) -> bool:
        try:
            method(self, *arguments, **named)
        except (RefusedError, device.DeviceError) as error:
            self.engine.voice.error(f"execution context: {error}")
            return False
        return True

    return answer


class IExecutionContext:
    """One use of an opened plan; it keeps the engine alive."""

    name = "emulated"

    def __init__(self, engine: ICudaEngine, strategy: ExecutionContextAllocationStrategy) -> None:
        if strategy == ExecutionContextAllocationStrategy.ON_PROFILE_CHANGE:
            raise NotImplementedError("the emulated TensorRT knows STATIC and USER_MANAGED contexts only")
        self.engine = engine
        self.active_optimization_profile = -1
        self._shapes: dict[str, Shape] = {}
        self._addresses: dict[str, int] = {}
        self._persistent = DeviceBlock(PERSISTENT)
        self._own: DeviceBlock | None = None
        self._activations: Region | None = None
        if strategy == ExecutionContextAllocationStrategy.STATIC:
            self._own = DeviceBlock(engine.device_memory_size_v2)
            self._activations = Region("the activation memory", self._own.address, self._own.bytes)
        self._forget_shapes()

    @_logs_refusals
    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> None:
        if not 0 <= profile_index < self.engine.num_optimization_profiles:
            raise RefusedError(
                f"there is no profile {profile_index}; there are {self.engine.num_optimization_profiles}"
            )
        self.active_optimization_profile = profile_index
        self._forget_shapes()

    def _forget_shapes(self) -> None:
        """Shapes are set anew for each profile; fixed ones are known."""
        self._shapes = {item.name: item.shape for item in self._inputs() if -1 not in item.shape}

    @_logs_refusals
    def set_input_shape(self, name: str, shape: Sequence[int]) -> None:
        tensor = self._tensor(name)
        if not tensor.is_input:
            raise RefusedError(f"{name} is no input")
        require_in_profile(tensor, tuple(shape), self._profile(), self.active_optimization_profile)
        self._shapes[name] = tuple(shape)

    @_logs_refusals
    def set_tensor_address(self, name: str, memory: int) -> None:
        self._addresses[self._tensor(name).name] = int(memory)

    def get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def get_tensor_shape(self, name: str) -> Shape:
        tensor = self.engine.tensors[name]
        if tensor.is_input:
            return self._shapes.get(name, tensor.shape)
        try:
            return evaluate(tensor.dims, self._names())
        except RefusedError as refusal:
            self.engine.voice.error(f"execution context: {refusal}")
            return tensor.shape

    def infer_shapes(self) -> list[str]:
        """Names of inputs without a shape.

        Raises:
            RuntimeError: the shapes of the inputs contradict each other.
        """
        try:
            self._names()
        except RefusedError as refusal:
            raise RuntimeError(f"emulated TensorRT: {refusal}") from None
        return self._missing()

    def set_device_memory(self, memory: int, size: int) -> None:
        """As the real one it says nothing when the memory does not do: the launch is refused."""
        self._take_memory(memory, size)

    @_logs_refusals
    def _take_memory(self, memory: int, size: int) -> None:
        if self._own is not None:
            raise RefusedError("this context manages its memory itself")
        self._activations = None  # what was given before is no longer meant
        require_aligned("the activation memory", memory)
        given = Region("the activation memory", memory, size)
        if self.active_optimization_profile >= 0:
            self._require_enough(given)
        self._activations = given

    @_logs_refusals
    def execute_async_v3(self, stream_handle: int) -> None:
        captured = device.is_capturing(stream_handle)
        if captured and os.environ.get("EMULATED_TENSORRT_UNCAPTURABLE") == "1":
            device.break_capture(stream_handle, "the emulated TensorRT was told to break captures")
            raise RefusedError("this launch cannot be captured")
        self._launch(captured).queue(stream_handle)

    def _launch(self, captured: bool) -> Launch:
        """A snapshot of what is set, checked."""
        self._profile()
        if self._missing():
            raise RefusedError(f"these inputs have no shape: {', '.join(self._missing())}")
        bindings, activations = self._bindings(), self._needed_activations()
        require_memory(bindings, activations)
        engine = self.engine
        kept = [Region("the memory of a context", self._persistent.address, self._persistent.bytes)]
        if engine.weights is not None:
            kept.append(Region("the memory of an engine", engine.weights.address, engine.weights.bytes))
        return Launch(engine.program, bindings, activations, tuple(kept), engine.launches, captured)

    def _bindings(self) -> tuple[Binding, ...]:
        names, found = self._names(), []
        for tensor in self.engine.plan.tensors:
            if tensor.name not in self._addresses:
                raise RefusedError(f"{tensor.name} has no address")
            shape = self._shapes[tensor.name] if tensor.is_input else evaluate(tensor.dims, names)
            if -1 in shape:
                raise RefusedError(f"the shape of {tensor.name} cannot be inferred: {tensor.dims}")
            found.append(Binding(tensor, shape, self._addresses[tensor.name]))
        return tuple(found)

    def _needed_activations(self) -> Region:
        """The part of the activation memory that the profile uses."""
        if self._activations is None:
            raise RefusedError("the context was given no activation memory")
        self._require_enough(self._activations)
        needed = self.engine.activations[self.active_optimization_profile]
        return Region(self._activations.name, self._activations.address, needed)

    def _require_enough(self, given: Region) -> None:
        index = self.active_optimization_profile
        needed = self.engine.activations[index]
        if given.bytes < needed:
            raise RefusedError(f"{given.bytes} bytes of activation memory are given; profile {index} needs {needed}")

    def _profile(self) -> Profile:
        if self.active_optimization_profile < 0:
            raise RefusedError("no optimization profile is selected")
        return self.engine.plan.profiles[self.active_optimization_profile]

    def _inputs(self) -> list[Tensor]:
        return [tensor for tensor in self.engine.plan.tensors if tensor.is_input]

    def _missing(self) -> list[str]:
        return [tensor.name for tensor in self._inputs() if tensor.name not in self._shapes]

    def _names(self) -> Names:
        """The sizes of named dimensions, from the inputs whose shapes are set."""
        names: Names = {}
        for name, shape in self._shapes.items():
            problem = learn(self.engine.tensors[name].dims, shape, names)
            if problem:
                raise RefusedError(problem)
        return names

    def _tensor(self, name: str) -> Tensor:
        if name not in self.engine.tensors:
            raise RefusedError(f"the plan has no tensor {name}")
        return self.engine.tensors[name]
