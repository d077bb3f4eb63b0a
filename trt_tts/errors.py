"""The errors a user of the library or the command line can meet.

Every one says what is wrong, the value found, what is allowed and what to do next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trt_tts.quality import Quality


class TrtTtsError(Exception):
    """Base of all errors raised on purpose. The command line prints it and exits with `exit_code`."""

    exit_code = 1


class UsageError(TrtTtsError, ValueError):
    """An option or argument is outside what is allowed."""

    exit_code = 2


class MissingDependencyError(TrtTtsError, ImportError):
    """An optional package is needed; the message holds the command that installs it."""


class CheckpointError(TrtTtsError):
    """The checkpoint folder is missing a file or tensor, or holds a wrong one."""


class ExportError(TrtTtsError):
    """An exported graph does not compute what the checkpoint computes, or could not be written."""


class BuildError(TrtTtsError):
    """TensorRT could not build an engine, or built something else than was asked for."""


class QualityError(BuildError):
    """Quantization changes the voice too much."""

    def __init__(self, message: str, found: Quality, precision: str) -> None:
        super().__init__(message)
        self.found = found
        """What was measured."""
        self.precision = precision
        """Key of `trt_tts.quality.GATES`."""


class EngineSetError(TrtTtsError):
    """The engine-set folder is incomplete, damaged, or made for something else."""


class TextError(TrtTtsError, ValueError):
    """The text cannot be spoken by this voice."""

    def __init__(self, message: str, stages: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.stages = tuple(stages)
        """(name, text) of what became of it until then."""


class VoiceError(TrtTtsError, ValueError):
    """The voice is unknown, or its string or vector is malformed."""


class CapacityError(TrtTtsError):
    """The prompt or the request does not fit the limits the engine set was built for."""


class CudaError(TrtTtsError):
    """The CUDA driver refused a call."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
        """The driver's number for it."""


class DeviceMemoryError(CudaError):
    """The GPU is out of memory."""


class DeviceLostError(CudaError):
    """The GPU stopped answering; nothing but a new process brings it back."""


class GenerationError(TrtTtsError):
    """The model's numbers were not finite."""

    finished: Sequence[Any] = ()
    """From `synthesize_batch`: an `Audio` per text, None for those that failed."""
