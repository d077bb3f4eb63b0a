"""Runs the `gpt` graph: chunked prefill and decode steps over buffers that are allocated once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from trt_tts.backend import F32, I32, Flags
from trt_tts.cpu.kv_cache import KeyValueCache
from trt_tts.errors import CapacityError
from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW, GptConfig

if TYPE_CHECKING:
    import onnxruntime


class _Drawn:
    """Codes that are there already."""

    def __init__(self, codes: I32) -> None:
        self._codes = codes

    def codes(self) -> I32:
        return self._codes


class GptRunner:
    """See `trt_tts.backend.Runner`. A call has ended when it returns, so codes are read at once."""

    lag = 0

    def __init__(
        self, session: onnxruntime.InferenceSession, sizes: GptConfig, rows: int, capacity: int, prefill_chunk: int
    ) -> None:
        self.session, self.sizes, self.capacity, self.prefill_chunk = session, sizes, capacity, prefill_chunk
        self.cache = KeyValueCache(sizes, rows, capacity)
        self.noise: F32 = np.zeros((rows, sizes.num_vq, MAX_CANDIDATES), np.float32)
        self.sampling: F32 = np.zeros((rows, 4), np.float32)
        self.allow_end: Flags = np.zeros(rows, np.bool_)
        self.last_codes: I32 = np.zeros((rows, sizes.num_vq), np.int32)
        self.last_hidden: F32 = np.zeros((rows, sizes.hidden_size), np.float32)
        self._history: list[list[F32]] = [[] for _ in range(rows)]
        self.position: I32 = np.zeros(rows, np.int32)
        self._recent: I32 = np.full((rows, PENALTY_WINDOW, sizes.num_vq), -1, np.int32)
        self._recent_out = self._recent.copy()
        self._span: I32 = np.arange(capacity, dtype=np.int32)
        self._last: I32 = np.zeros(rows, np.int32)
        self._step_rows: F32 = np.zeros((rows, 1, sizes.hidden_size), np.float32)
        self._step_is_code = np.ones((rows, 1), np.bool_)
        self._bindings: dict[tuple[int, int], Any] = {}

    def reset(self) -> None:
        """Start a run with no row in use."""
        self.cache.reset()

    def prefill(self, row: int, used_rows: int, embedded: F32, codes: I32, is_code: Flags) -> _Drawn:
        """As `Runner.prefill`."""
        self.cache.grow(len(embedded), used_rows)
        self.cache.clear_row(row)
        self._recent[row] = -1
        self.position[row] = 0
        self._history[row] = []
        return self.extend(row, used_rows, embedded, codes, is_code)

    def extend(self, row: int, used_rows: int, embedded: F32, codes: I32, is_code: Flags) -> _Drawn:
        """As `Runner.extend`."""
        length = int(self.position[row]) + len(embedded)
        if length > self.capacity:
            raise CapacityError(f"{length} positions do not fit the capacity of {self.capacity}")
        self.cache.grow(length, used_rows)
        for first in range(0, len(embedded), self.prefill_chunk):
            part = slice(first, min(first + self.prefill_chunk, len(embedded)))
            self._last[row] = part.stop - first - 1
            binding = self._bind(row, 1, codes[None, part], embedded[None, part], is_code[None, part])
            self.session.run_with_iobinding(binding)
            self.position[row] += part.stop - first
        self._last[row] = 0
        self._recent[row] = self._recent_out[row]
        return self._drawn(row, 1)

    def step(self, count: int) -> _Drawn:
        """As `Runner.step`."""
        longest = int(self.position[:count].max()) + 1
        if longest > self.capacity:
            raise CapacityError(f"a sequence would exceed the capacity of {self.capacity} positions")
        self.cache.grow(longest, count)
        key = (count, self.cache.span)
        if key not in self._bindings:
            codes_in = self.last_codes[:count].reshape(count, 1, -1)
            self._bindings[key] = self._bind(0, count, codes_in, self._step_rows[:count], self._step_is_code[:count])
        self.session.run_with_iobinding(self._bindings[key])
        self.position[:count] += 1
        self._recent[:count] = self._recent_out[:count]
        return self._drawn(0, count)

    def move(self, source: int, target: int) -> None:
        """As `Runner.move`."""
        self.cache.move_row(source, target)
        for state in (self.last_codes, self.last_hidden, self.position, self.sampling, self._recent):
            state[target] = state[source]
        self._history[target] = self._history[source]

    def hidden(self, row: int, first: int, steps: int) -> F32:
        """As `Runner.hidden`: float32 [steps, E]."""
        return np.array(self._history[row][first : first + steps], np.float32).reshape(-1, self.sizes.hidden_size)

    def _drawn(self, row: int, count: int) -> _Drawn:
        for place in range(row, row + count):
            self._history[place].append(self.last_hidden[place].copy())
        return _Drawn(self.last_codes[row : row + count].copy())

    def _bind(self, row: int, count: int, codes: I32, embedded: F32, is_code: Flags) -> Any:
        rows = slice(row, row + count)
        inputs: dict[str, npt.NDArray[Any]] = {
            "codes_in": codes,
            "rows": embedded,
            "is_code": is_code,
            "start": self.position[rows],
            "span": self._span[: self.cache.span],
            "last": self._last[rows],
            "recent": self._recent[rows],
            "noise": self.noise[rows],
            "sampling": self.sampling[rows],
            "allow_end": self.allow_end[rows],
        }
        outputs: dict[str, npt.NDArray[Any]] = {
            "codes": self.last_codes[rows],
            "hidden": self.last_hidden[rows],
            "recent_out": self._recent_out[rows],
        }
        for name, block in self.cache.blocks(row, count):
            inputs[name] = outputs[f"{name}_out"] = block
        return bind(self.session, inputs, outputs)


def bind(
    session: onnxruntime.InferenceSession, inputs: dict[str, npt.NDArray[Any]], outputs: dict[str, npt.NDArray[Any]]
) -> Any:
    """An IoBinding that reads and writes these arrays where they lie.

    ONNX Runtime keeps addresses only: the caller keeps the arrays alive as long as the binding.
    """
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_input(name, "cpu", 0, value.dtype.type, value.shape, value.ctypes.data)
    for name, value in outputs.items():
        binding.bind_output(name, "cpu", 0, value.dtype.type, value.shape, value.ctypes.data)
    return binding
