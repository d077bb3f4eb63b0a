"""Opened plans."""

import json
import weakref

from .context import IExecutionContext
from .device import DeviceBlock, DeviceError
from .kinds import DataType, ExecutionContextAllocationStrategy, LayerInformationFormat, TensorIOMode
from .launch import forget_all
from .logger import ILogger, Voice
from .plan import Plan, PlanError
from .program import Program
from .shapes import Shape


class Runtime:
    """Opens plans."""

    def __init__(self, logger: ILogger) -> None:
        self._voice = Voice(logger)

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> "ICudaEngine | None":
        try:
            return ICudaEngine(Plan.read(bytes(serialized_engine)), self._voice)
        except (PlanError, DeviceError) as error:
            self._voice.error(f"the plan cannot be opened: {error}")
            return None


class ICudaEngine:
    """One opened plan, whose weights take device memory until it is collected."""

    name = "emulated"

    def __init__(self, plan: Plan, voice: Voice) -> None:
        self.plan, self.voice = plan, voice
        self.tensors = {tensor.name: tensor for tensor in plan.tensors}
        self.activations = plan.activations
        self.program = None if plan.model is None else Program(plan.model)
        self.weights = DeviceBlock(plan.weights) if plan.weights else None
        self.launches: set[int] = set()
        weakref.finalize(self, forget_all, self.launches)

    @property
    def num_io_tensors(self) -> int:
        return len(self.plan.tensors)

    def get_tensor_name(self, index: int) -> str:
        return self.plan.tensors[index].name

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode[self.tensors[name].mode] if name in self.tensors else TensorIOMode.NONE

    def get_tensor_dtype(self, name: str) -> DataType:
        return DataType.of(self.tensors[name].dtype)

    def get_tensor_shape(self, name: str) -> Shape:
        return self.tensors[name].shape

    def get_aliased_input_tensor(self, name: str) -> str | None:
        return self.tensors[name].alias

    @property
    def num_optimization_profiles(self) -> int:
        return len(self.plan.profiles)

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> list[Shape]:
        return list(self.plan.profiles[profile_index].get(name, (self.tensors[name].shape,) * 3))

    @property
    def device_memory_size_v2(self) -> int:
        return max(self.activations)

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return self.activations[profile_index]

    def create_execution_context(
        self, strategy: ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy.STATIC
    ) -> IExecutionContext | None:
        try:
            return IExecutionContext(self, strategy)
        except DeviceError as error:
            self.voice.error(f"no memory for an execution context: {error}")
            return None

    def create_engine_inspector(self) -> "EngineInspector":
        return EngineInspector(self.plan)


class EngineInspector:
    """Tells what a plan is made of."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def get_engine_information(self, format: LayerInformationFormat) -> str:
        if format == LayerInformationFormat.JSON:
            return json.dumps({"Layers": self._plan.layers})
        return "\n".join(layer if isinstance(layer, str) else layer["Name"] for layer in self._plan.layers)
