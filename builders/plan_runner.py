"""Runs a finished plan on the GPU, for the self-test: one call at a time, nothing hidden behind streams."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.errors import BuildError, MissingDependencyError
from trt_tts.flavour import Flavour
from trt_tts.model_config import GptConfig
from trt_tts.selftest import WRITTEN, Case, Feed

_CACHE = re.compile(r"[kv]_\d+")


class PlanRunner:
    """One deserialized plan with one context; close it to free the card's memory."""

    def __init__(
        self, flavour: Flavour, plan: Path, profiles: tuple[str, ...], sizes: GptConfig, capacity: int
    ) -> None:
        """Open `plan`.

        Raises:
            MissingDependencyError: Polygraphy is missing.
            BuildError: TensorRT refuses the plan.
        """
        try:
            from polygraphy import cuda
            from polygraphy.exception import PolygraphyException
        except ImportError as error:
            raise MissingDependencyError(
                f"polygraphy is needed to test a set on a GPU. Install it with: pip install polygraphy ({error})"
            ) from error
        self._cuda, self._trt, self._cuda_error = cuda, flavour.module, PolygraphyException
        self._profiles, self._sizes, self._capacity = profiles, sizes, capacity
        self._stream = cuda.Stream()
        self._last_seconds = 0.0
        self._logger = flavour.module.Logger(flavour.module.Logger.ERROR)
        self._runtime = flavour.module.Runtime(self._logger)
        self._engine = self._runtime.deserialize_cuda_engine(plan.read_bytes())
        if self._engine is None:
            raise BuildError(f"{flavour} cannot open {plan}. Build the set again on this machine")
        self._context = self._engine.create_execution_context()
        if self._context is None:
            raise BuildError(f"{flavour} cannot run {plan.name}: not enough GPU memory. Close other programs")
        names = [self._engine.get_tensor_name(i) for i in range(self._engine.num_io_tensors)]
        inputs = flavour.module.TensorIOMode.INPUT
        self._inputs = [name for name in names if self._engine.get_tensor_mode(name) == inputs]
        self._outputs = [name for name in names if name not in self._inputs]

    def execute(self, case: Case) -> tuple[Feed, ...]:
        """The results of a case's calls, and what the last one left in the caches.

        Raises:
            BuildError: TensorRT refuses a shape or fails.
        """
        with self._prepared(case) as caches:
            found = tuple(self._call(call, caches) for call in case.calls)
            if caches:
                rows = [buffer.numpy()[:, :, case.written].astype(np.float32) for buffer in caches.values()]
                found[-1][WRITTEN] = np.stack(rows)
            return found

    def seconds(self, case: Case, repeats: int = 20) -> float:
        """Median time of a case's first call on the GPU, transfers apart. Errors as `execute`."""
        times = []
        with self._prepared(case) as caches:
            for _ in range(repeats):
                self._call(case.calls[0], caches)
                times.append(self._last_seconds)
        return float(np.median(times))

    @contextmanager
    def _prepared(self, case: Case) -> Iterator[dict[str, Any]]:
        """Select the case's profile and yield its filled caches, by input."""
        index = self._profiles.index(case.profile)
        if not self._context.set_optimization_profile_async(index, self._stream.ptr):
            raise BuildError(f"profile {case.profile} of {case.graph} cannot be selected")
        self._stream.synchronize()
        caches: dict[str, Any] = {}
        try:
            self._fill_caches(case, caches)
            yield caches
        except self._cuda_error as error:
            raise BuildError(f"CUDA fails in {case.graph}, {case.profile}: {error}. Close other programs") from error
        finally:
            for buffer in caches.values():
                buffer.free()

    def _fill_caches(self, case: Case, caches: dict[str, Any]) -> None:
        rows = len(case.calls[0].get("start", ()))
        heads, width = self._sizes.num_attention_heads, self._sizes.head_dim
        for i, name in enumerate(name for name in self._inputs if _CACHE.fullmatch(name)):
            values = case.cache(i, rows, heads, self._capacity, width).astype(self._dtype(name))
            caches[name] = self._upload(values)

    def _call(self, feed: Feed, caches: dict[str, Any]) -> Feed:
        buffers = {name: self._upload(value.astype(self._dtype(name))) for name, value in feed.items()}
        try:
            for name, buffer in (buffers | caches).items():
                if not self._context.set_input_shape(name, buffer.shape):
                    raise BuildError(f"shape {buffer.shape} of {name} is outside the plan's profile")
                self._bind(name, buffer)
            results = {}
            for name in self._outputs:
                cache = caches.get(name.removesuffix("_out")) if name.endswith("_out") else None
                if cache is None:
                    shape = tuple(self._context.get_tensor_shape(name))
                    cache = results[name] = buffers[name] = self._cuda.DeviceArray(shape, self._dtype(name))
                # A cache's output is the cache itself: TensorRT writes the new rows in place.
                self._bind(name, cache)
            self._stream.synchronize()
            started = time.perf_counter()
            if not self._context.execute_async_v3(self._stream.ptr):
                raise BuildError("TensorRT failed while running a plan; its log above says why")
            self._stream.synchronize()
            self._last_seconds = time.perf_counter() - started
            return {name: buffer.numpy() for name, buffer in results.items()}
        finally:
            for buffer in buffers.values():
                buffer.free()

    def _bind(self, name: str, buffer: Any) -> None:
        if not self._context.set_tensor_address(name, buffer.ptr):
            raise BuildError(f"TensorRT refuses the buffer of {name}")

    def _upload(self, values: Any) -> Any:
        array = np.ascontiguousarray(values)
        buffer = self._cuda.DeviceArray(array.shape, array.dtype)
        buffer.copy_from(array, stream=None)
        return buffer

    def _dtype(self, name: str) -> Any:
        return np.dtype(self._trt.nptype(self._engine.get_tensor_dtype(name)))

    def close(self) -> None:
        """Free the plan's memory."""
        self._context = self._engine = self._runtime = None
        self._stream.free()
