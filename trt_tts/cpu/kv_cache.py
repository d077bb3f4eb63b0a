"""The key-value cache in ordinary memory, written in place by the graph."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.model_config import GptConfig

F32: TypeAlias = npt.NDArray[np.float32]
SPAN_STEP = 128
"""The attended length grows in these steps: a finer one copies more often, a coarser one attends to more padding."""


class KeyValueCache:
    """One buffer per layer and k/v, reserved for `rows` x `capacity` once; pages are touched only as far as used.

    The first bytes of a buffer hold a contiguous [rows, H, span, D]: the graph attends to exactly what is bound.
    """

    def __init__(self, sizes: GptConfig, rows: int, capacity: int) -> None:
        self.rows, self.capacity = rows, capacity
        self.heads, self.width = sizes.num_attention_heads, sizes.head_dim
        self.names = [f"{kind}_{i}" for i in range(sizes.num_hidden_layers) for kind in "kv"]
        count = rows * self.heads * capacity * self.width
        self._buffers = [np.zeros(count, np.float32) for _ in self.names]
        self.span = min(SPAN_STEP, capacity)

    @property
    def bytes(self) -> int:
        """Bytes reserved."""
        return sum(buffer.nbytes for buffer in self._buffers)

    def reset(self) -> None:
        """Forget everything; the attended length starts small again."""
        self.span = min(SPAN_STEP, self.capacity)

    def clear_row(self, row: int) -> None:
        """Zero a row before a new sequence uses it: a masked NaN of the last one would still be a NaN."""
        for buffer in self._buffers:
            self._view(buffer, self.span)[row] = 0

    def move_row(self, source: int, target: int) -> None:
        """Copy one row over another."""
        for buffer in self._buffers:
            view = self._view(buffer, self.span)
            view[target] = view[source]

    def grow(self, positions: int, used_rows: int) -> None:
        """Make room for `positions` positions per row, keeping the first `used_rows` rows' contents."""
        if positions <= self.span:
            return
        old, self.span = self.span, min(-(-positions // SPAN_STEP) * SPAN_STEP, self.capacity)
        for buffer in self._buffers:
            before, after = self._view(buffer, old), self._view(buffer, self.span)
            # Last block first: every block moves towards the end of the buffer.
            for row in reversed(range(used_rows)):
                for head in reversed(range(self.heads)):
                    after[row, head, :old] = before[row, head]
                    after[row, head, old:] = 0

    def blocks(self, row: int, count: int) -> list[tuple[str, F32]]:
        """Name and view [count, H, span, D] of each buffer, from `row` on."""
        return [
            (name, self._view(buffer, self.span)[row : row + count])
            for name, buffer in zip(self.names, self._buffers, strict=True)
        ]

    def _view(self, buffer: F32, span: int) -> F32:
        return buffer[: self.rows * self.heads * span * self.width].reshape(self.rows, self.heads, span, self.width)
