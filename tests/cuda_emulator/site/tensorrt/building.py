"""From an ONNX file to a plan: network, parser, config and builder."""

from collections.abc import Sequence

from . import device
from .kinds import BuilderFlag, MemoryPoolType, ProfilingVerbosity
from .logger import ILogger, Voice
from .plan import PERSISTENT, Plan, Profile, Tensor
from .shapes import Shape

_TIMINGS = b"emulated TensorRT timing cache"


class IOptimizationProfile:
    """The range of shapes of each input."""

    def __init__(self) -> None:
        self.ranges: Profile = {}

    def set_shape(self, input: str, min: Sequence[int], opt: Sequence[int], max: Sequence[int]) -> None:
        if not len(min) == len(opt) == len(max) or any(
            not 0 <= a <= b <= c for a, b, c in zip(min, opt, max, strict=True)
        ):
            raise ValueError(f"emulated TensorRT: the shapes of {input} are not ordered: {min}, {opt}, {max}")
        self.ranges[input] = tuple(min), tuple(opt), tuple(max)


class IProgressMonitor:
    """To be derived from."""

    def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
        raise NotImplementedError

    def step_complete(self, phase_name: str, step: int) -> bool:
        raise NotImplementedError

    def phase_finish(self, phase_name: str) -> None:
        raise NotImplementedError


class ITimingCache:
    """Holds nothing but its mark: there is nothing to time."""

    def serialize(self) -> bytes:
        return _TIMINGS


class IBuilderConfig:
    """How to build."""

    def __init__(self, voice: Voice) -> None:
        self._voice = voice
        self.profiles: list[Profile] = []
        self.progress_monitor: IProgressMonitor | None = None
        self.profiling_verbosity = ProfilingVerbosity.LAYER_NAMES_ONLY
        self._limits: dict[MemoryPoolType, int] = {}
        self._flags = {BuilderFlag.TF32}
        self._cache: ITimingCache | None = None

    def set_flag(self, flag: BuilderFlag) -> None:
        self._flags.add(flag)

    def clear_flag(self, flag: BuilderFlag) -> None:
        self._flags.discard(flag)

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        if pool == MemoryPoolType.TACTIC_DRAM and pool_size & (pool_size - 1):
            self._voice.error(f"the limit of TACTIC_DRAM must be a power of two, not {pool_size}")
            return
        self._limits[pool] = pool_size

    def get_memory_pool_limit(self, pool: MemoryPoolType) -> int:
        return self._limits.get(pool, 0)

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        if not profile.ranges:
            self._voice.error("an optimization profile without shapes")
            return -1
        self.profiles.append(dict(profile.ranges))
        return len(self.profiles) - 1

    def create_timing_cache(self, serialized_timing_cache: bytes) -> ITimingCache | None:
        if serialized_timing_cache not in (b"", _TIMINGS):
            self._voice.error("this is no timing cache of the emulated TensorRT")
            return None
        return ITimingCache()

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        self._cache = cache
        return True

    def get_timing_cache(self) -> ITimingCache | None:
        return self._cache


class ITensor:
    """A network's input or output."""

    def __init__(self, tensor: Tensor) -> None:
        self.name, self.shape = tensor.name, tensor.shape


class INetworkDefinition:
    """What a parser fills."""

    name = "emulated"

    def __init__(self) -> None:
        self.tensors: tuple[Tensor, ...] = ()
        self.model, self.weights, self.layers = b"", 0, []

    @property
    def num_inputs(self) -> int:
        return sum(tensor.is_input for tensor in self.tensors)

    @property
    def num_outputs(self) -> int:
        return len(self.tensors) - self.num_inputs

    def get_input(self, index: int) -> ITensor:
        return ITensor([tensor for tensor in self.tensors if tensor.is_input][index])

    def get_output(self, index: int) -> ITensor:
        return ITensor([tensor for tensor in self.tensors if not tensor.is_input][index])


class ParserError:
    """Why a file was refused."""

    def __init__(self, text: str) -> None:
        self._text = text

    def desc(self) -> str:
        return self._text


class OnnxParser:
    """Reads ONNX files into a network."""

    def __init__(self, network: INetworkDefinition, logger: ILogger) -> None:
        self._network, self._errors = network, []
        Voice(logger)  # refuses what is no logger

    def parse_from_file(self, model: str) -> bool:
        import onnx
        from google.protobuf.message import DecodeError

        from .onnx_graph import read_graph

        try:
            graph = read_graph(model)
        except (OSError, DecodeError, onnx.checker.ValidationError) as error:
            self._errors.append(ParserError(f"[emulated] {model} cannot be parsed: {error}"))
            return False
        network = self._network
        network.tensors, network.model = graph.tensors, graph.model
        network.weights, network.layers = graph.weights, graph.layers
        return True

    @property
    def num_errors(self) -> int:
        return len(self._errors)

    def get_error(self, index: int) -> ParserError:
        return self._errors[index]


class IHostMemory(bytes):
    """A built plan."""

    @property
    def nbytes(self) -> int:
        return len(self)


class Builder:
    """Builds plans for the emulated GPU."""

    def __init__(self, logger: ILogger) -> None:
        self._voice = Voice(logger)
        device.use_primary_context()

    def create_network(self, flags: int = 0) -> INetworkDefinition:
        return INetworkDefinition()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig(self._voice)

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def build_serialized_network(self, network: INetworkDefinition, config: IBuilderConfig) -> IHostMemory | None:
        problem = _problem(network, config.profiles)
        if problem:
            self._voice.error(problem)
            return None
        detailed = config.profiling_verbosity == ProfilingVerbosity.DETAILED
        layers = network.layers if detailed else [layer["Name"] for layer in network.layers]
        plan = Plan(network.tensors, tuple(config.profiles), network.weights, layers, network.model)
        if not self._tell(plan, config.progress_monitor):
            self._voice.error("the build was cancelled by its progress monitor")
            return None
        return IHostMemory(plan.to_bytes())

    def _tell(self, plan: Plan, monitor: IProgressMonitor | None) -> bool:
        """Log the memory as the real builder does, and report progress; False once the monitor cancels."""
        phase, going = "[emulated] Building Engine", True
        if monitor:
            monitor.phase_start(phase, None, len(plan.activations))
        for i, size in enumerate(plan.activations):
            self._voice.info("Total Host Persistent Memory: 0 bytes")
            self._voice.info(f"Total Device Persistent Memory: {PERSISTENT} bytes")
            self._voice.info(f"Max Scratch Memory: {size // 4} bytes")
            self._voice.info(f"Total Activation Memory: {size} bytes")
            going = going and (monitor is None or monitor.step_complete(phase, i))
        self._voice.info(f"Total Weights Memory: {plan.weights} bytes")
        if monitor:
            monitor.phase_finish(phase)
        return going


def _problem(network: INetworkDefinition, profiles: list[Profile]) -> str | None:
    if not network.tensors:
        return "the network is empty"
    if not profiles:
        return "the network has no optimization profile"
    for i, profile in enumerate(profiles):
        for tensor in network.tensors:
            if not tensor.is_input:
                continue
            ranges = profile.get(tensor.name)
            if ranges is None and -1 in tensor.shape:
                return f"optimization profile {i} has no shapes for {tensor.name}"
            if ranges is not None and not all(_fits(tensor.shape, shape) for shape in ranges):
                return f"optimization profile {i} gives {tensor.name} {ranges}; the network has {tensor.shape}"
    return None


def _fits(wanted: Shape, shape: Shape) -> bool:
    return len(wanted) == len(shape) and all(a in (-1, b) for a, b in zip(wanted, shape, strict=True))
