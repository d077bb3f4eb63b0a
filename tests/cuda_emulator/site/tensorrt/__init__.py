"""An emulated TensorRT for tests: plans hold ONNX graphs, and ONNX Runtime runs them on an emulated device's memory.

It has the part of NVIDIA's Python API that this project uses, under the same names, and is as strict as the real one
or stricter. Modules:

- `kinds`: enumerations.
- `logger`: loggers.
- `plan`: what a plan file holds. `shapes`: symbolic dimensions.
- `building`: network, parser, config and builder. `onnx_graph` reads ONNX files for it.
- `device`: the emulated driver.
- `engine`, `context`: opened plans and their contexts. `checks`: what a context demands before it queues a launch.
- `launch`, `program`: queued work, and the ONNX graph that it runs.

Environment, read when a launch is queued or runs: `EMULATED_TENSORRT_UNCAPTURABLE=1` makes launches break a capture,
`EMULATED_TENSORRT_FACTOR` multiplies every floating-point output: "nan" makes all of them NaN.
"""

from . import plan
from .building import (
    Builder,
    IOptimizationProfile,
    IProgressMonitor,
    OnnxParser,
)
from .context import IExecutionContext
from .engine import EngineInspector, ICudaEngine, Runtime
from .kinds import (
    BuilderFlag,
    DataType,
    ExecutionContextAllocationStrategy,
    LayerInformationFormat,
    MemoryPoolType,
    NetworkDefinitionCreationFlag,
    ProfilingVerbosity,
    TensorIOMode,
    nptype,
)
from .logger import ILogger, Logger
from .plan import idle_plan

__version__ = plan.VERSION

__all__ = [
    "Builder",
    "BuilderFlag",
    "DataType",
    "EngineInspector",
    "ExecutionContextAllocationStrategy",
    "ICudaEngine",
    "IExecutionContext",
    "ILogger",
    "IOptimizationProfile",
    "IProgressMonitor",
    "LayerInformationFormat",
    "Logger",
    "MemoryPoolType",
    "NetworkDefinitionCreationFlag",
    "OnnxParser",
    "ProfilingVerbosity",
    "Runtime",
    "TensorIOMode",
    "__version__",
    "idle_plan",
    "nptype",
]
