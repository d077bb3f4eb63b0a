"""Runs a finished plan on the GPU, for the self-test: one call at a time, nothing left running."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.cuda.device import Device
from trt_tts.flavour import Flavour
from trt_tts.gpu.plan import Context, Plan
from trt_tts.manifest import GraphInfo
from trt_tts.model_config import GptConfig
from trt_tts.selftest import WRITTEN, Case, Feed

_CACHE = re.compile(r"[kv]_\d+")


class PlanRunner:
    """One deserialized plan; close it to free the card's memory. Used with the device's context current."""

    def __init__(
        self, flavour: Flavour, device: Device, file: Path, graph: GraphInfo, sizes: GptConfig, capacity: int
    ) -> None:
        """Open the plan `file`.

        Raises:
            EngineSetError: TensorRT refuses it.
            DeviceMemoryError: it does not fit.
        """
        self._device, self._sizes, self._capacity = device, sizes, capacity
        self._plan = Plan(flavour, device, file, graph)
        self._inputs = {item.name: item.dtype for item in graph.inputs}
        self._outputs = {item.name: item.dtype for item in graph.outputs}
        self._last_seconds = 0.0

    def execute(self, case: Case) -> tuple[Feed, ...]:
        """The results of a case's calls, and what the last one left in the caches.

        Raises:
            EngineSetError: TensorRT refuses a shape or fails.
            CudaError: the GPU fails.
        """
        with self._prepared(case) as (context, caches):
            found = tuple(self._call(context, call, caches) for call in case.calls)
            if caches:
                rows = [cache.fetch()[:, :, case.written].astype(np.float32) for cache in caches.values()]
                found[-1][WRITTEN] = np.stack(rows)
            return found

    def seconds(self, case: Case, repeats: int = 20) -> float:
        """Median time of a case's first call on the GPU, transfers apart. Errors as `execute`."""
        times = []
        with self._prepared(case) as (context, caches):
            for _ in range(repeats):
                self._call(context, case.calls[0], caches)
                times.append(self._last_seconds)
        return float(np.median(times))

    def close(self) -> None:
        """Free the plan's memory."""
        self._plan.close()

    @contextmanager
    def _prepared(self, case: Case) -> Iterator[tuple[Context, dict[str, _DeviceArray]]]:
        """A context for the case's profile, and its filled caches by input."""
        context, size = self._plan.context(case.profile), self._plan.activation_bytes(case.profile)
        block = self._device.allocate(max(size, 1))
        caches: dict[str, _DeviceArray] = {}
        try:
            context.lend(block, size)
            self._fill_caches(case, caches)
            yield context, caches
        finally:
            for cache in caches.values():
                cache.free()
            self._device.free(block)

    def _fill_caches(self, case: Case, caches: dict[str, _DeviceArray]) -> None:
        rows = len(case.calls[0].get("start", ()))
        heads, width = self._sizes.num_attention_heads, self._sizes.head_dim
        for i, name in enumerate(name for name in self._inputs if _CACHE.fullmatch(name)):
            values = case.cache(i, rows, heads, self._capacity, width)
            caches[name] = _DeviceArray(self._device, values.astype(self._inputs[name]))

    def _call(self, context: Context, feed: Feed, caches: dict[str, _DeviceArray]) -> Feed:
        results: dict[str, _DeviceArray] = {}
        inputs: dict[str, _DeviceArray] = {}
        try:
            for name, values in feed.items():
                inputs[name] = _DeviceArray(self._device, values.astype(self._inputs[name]))
            shapes = {name: item.values.shape for name, item in (inputs | caches).items()}
            context.bind(shapes, {name: item.address for name, item in (inputs | caches).items()})
            for name, dtype in self._outputs.items():
                # A cache's output is the cache itself: TensorRT writes the new rows in place.
                target = caches.get(name.removesuffix("_out"))
                if target is None:
                    target = results[name] = _DeviceArray(self._device, np.zeros(context.shape(name), dtype))
                context.bind({}, {name: target.address})
            self._run(context)
            return {name: item.fetch() for name, item in results.items()}
        finally:
            for item in (*inputs.values(), *results.values()):
                item.free()

    def _run(self, context: Context) -> None:
        self._device.synchronize()
        started = time.perf_counter()
        context.enqueue()
        self._device.synchronize()
        self._last_seconds = time.perf_counter() - started


class _DeviceArray:
    """An array on the GPU, sent and fetched at once through pinned memory of its size."""

    def __init__(self, device: Device, values: npt.NDArray[Any]) -> None:
        self.values, self._device = values, device
        with device.all_or_nothing():
            self.address = device.allocate(max(values.nbytes, 1))
            self._pinned = device.allocate_pinned(max(values.nbytes, 1))
        self._view = self._pinned.part(0, values.nbytes)
        self._view.array[:] = np.frombuffer(np.ascontiguousarray(values), np.uint8)
        device.driver.copy_up(self.address, self._view, device.stream)
        device.synchronize()

    def fetch(self) -> npt.NDArray[Any]:
        """What it holds now."""
        self._device.driver.copy_down(self._view, self.address, self._device.stream)
        self._device.synchronize()
        return self._view.array.view(self.values.dtype).reshape(self.values.shape).copy()

    def free(self) -> None:
        """Give its memory back."""
        self._device.free(self.address)
        self._device.free_pinned(self._pinned)
