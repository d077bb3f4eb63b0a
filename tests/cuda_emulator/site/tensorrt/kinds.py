"""TensorRT's enumerations, with the values of the real ones."""

from enum import IntEnum

import numpy as np


class DataType(IntEnum):
    FLOAT = 0
    HALF = 1
    INT8 = 2
    INT32 = 3
    BOOL = 4
    INT64 = 8

    @property
    def itemsize(self) -> int:
        return np.dtype(nptype(self)).itemsize

    @classmethod
    def of(cls, name: str) -> "DataType":
        """The type that numpy calls `name`; not in the real API."""
        return next(kind for kind, known in _NUMPY.items() if np.dtype(known).name == name)


_NUMPY = {
    DataType.FLOAT: np.float32,
    DataType.HALF: np.float16,
    DataType.INT8: np.int8,
    DataType.INT32: np.int32,
    DataType.BOOL: np.bool_,
    DataType.INT64: np.int64,
}


def nptype(kind: DataType) -> type[np.generic]:
    return _NUMPY[kind]


class TensorIOMode(IntEnum):
    NONE = 0
    INPUT = 1
    OUTPUT = 2


class MemoryPoolType(IntEnum):
    WORKSPACE = 0
    TACTIC_DRAM = 4


class ProfilingVerbosity(IntEnum):
    LAYER_NAMES_ONLY = 0
    NONE = 1
    DETAILED = 2


class BuilderFlag(IntEnum):
    TF32 = 6
    REQUIRE_USER_ALLOCATION = 28


class ExecutionContextAllocationStrategy(IntEnum):
    STATIC = 0
    ON_PROFILE_CHANGE = 1
    USER_MANAGED = 2


class LayerInformationFormat(IntEnum):
    ONELINE = 0
    JSON = 1


class NetworkDefinitionCreationFlag(IntEnum):
    STRONGLY_TYPED = 0
