"""Loggers, as the real ones are derived from and called."""

from enum import IntEnum


class Severity(IntEnum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


class ILogger:
    """To be derived from; `log` is called for every line."""

    Severity = Severity
    INTERNAL_ERROR = Severity.INTERNAL_ERROR
    ERROR = Severity.ERROR
    WARNING = Severity.WARNING
    INFO = Severity.INFO
    VERBOSE = Severity.VERBOSE

    def log(self, severity: Severity, msg: str) -> None:
        raise NotImplementedError("a logger must override log")


class Logger(ILogger):
    """Prints lines of at least a severity."""

    def __init__(self, min_severity: Severity = Severity.WARNING) -> None:
        self.min_severity = min_severity

    def log(self, severity: Severity, msg: str) -> None:
        if severity <= self.min_severity:
            print(f"[emulated TRT] [{Severity(severity).name[0]}] {msg}", flush=True)


class Voice:
    """Says everything through one logger, marked as emulated."""

    def __init__(self, logger: ILogger) -> None:
        if not isinstance(logger, ILogger):
            raise TypeError(f"emulated TensorRT: {logger!r} is no logger")
        self._logger = logger

    def info(self, text: str) -> None:
        self._logger.log(Severity.INFO, f"[emulated] {text}")

    def error(self, text: str) -> None:
        self._logger.log(Severity.ERROR, f"[emulated] {text}")
