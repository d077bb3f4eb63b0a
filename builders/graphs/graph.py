"""What a graph needs to be exported and validated."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Graph:
    """A torch module with named inputs and outputs."""

    name: str
    module: nn.Module
    outputs: tuple[str, ...]
    dynamic: dict[str, dict[int, str]]
    """Input name -> axis -> name of the dynamic dimension."""
    samples: tuple[dict[str, Tensor], ...]
    """Inputs by name, at several shapes. The first one is traced; all are compared with torch after the export."""
    caches: int = 0
    """How many of the last inputs the module takes as one list (k_0, v_0, k_1, ...)."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Input names in the module's order."""
        return tuple(self.samples[0])

    def arguments(self, sample: dict[str, Tensor]) -> tuple[Tensor | list[Tensor], ...]:
        """The module's positional arguments for a sample."""
        values = list(sample.values())
        if not self.caches:
            return tuple(values)
        return (*values[: -self.caches], values[-self.caches :])
