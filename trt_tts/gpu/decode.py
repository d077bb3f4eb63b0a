"""Decode steps: an execution context and a CUDA graph for every span and number of rows."""

from __future__ import annotations

from trt_tts.errors import CudaError, DeviceLostError, EngineSetError
from trt_tts.gpu.caches import Caches
from trt_tts.gpu.layout import step_upload
from trt_tts.gpu.plan import Context, Plan
from trt_tts.gpu.tensors import Tensors
from trt_tts.manifest import Limits
from trt_tts.model_config import GptConfig

DECODE = "decode-"
"""Profiles of this name step with as many positions as the number behind it says."""


class Decode:
    """Queues steps of the first row, or of all rows, whose inputs have arrived in `step`'s upload."""

    def __init__(self, plan: Plan, sizes: GptConfig, limits: Limits) -> None:
        """Make the contexts.

        Raises:
            DeviceMemoryError: they do not fit.
            EngineSetError: the plan's profiles do not cover the set's capacity.
        """
        self._plan, self._sizes, self._device = plan, sizes, plan.device
        self.spans = sorted(int(name.removeprefix(DECODE)) for name in plan.profiles if name.startswith(DECODE))
        if not self.spans or self.spans[-1] != limits.capacity:
            raise EngineSetError(f"{plan.file} steps in spans of {self.spans}, not up to {limits.capacity}")
        self.forms = forms_of(limits)
        self._contexts: dict[tuple[int, int], Context] = {}
        for span in self.spans:
            for rows in self.forms:
                self._contexts[span, rows] = plan.context(f"{DECODE}{span}", shapes_recur=True)
        self._graphs: dict[tuple[int, int], int] = {}
        self.refusal: str | None = None
        """Why there are no CUDA graphs; None where there are."""

    @property
    def contexts(self) -> list[Context]:
        """All of them."""
        return list(self._contexts.values())

    def bind(self, step: Tensors, caches: Caches) -> None:
        """Fix shapes and addresses. Errors as `Context.bind`."""
        self._step = step
        for (span, rows), context in self._contexts.items():
            shapes = {name: (rows, *block.shape[1:]) for name, block in step.blocks.items()}
            shapes |= {"noise": (rows, *step_upload(self._sizes, rows)["noise"].shape[1:]), "span": (span,)}
            shapes |= {name: (rows, *_cache_shape(self._sizes, caches)) for name in caches.names}
            inputs = {name: shape for name, shape in shapes.items() if name not in _NO_INPUTS}
            addresses = step.addresses | {"noise": step.addresses["upload"]} | caches.addresses(0)
            context.bind(inputs, {name: value for name, value in addresses.items() if name != "upload"})

    def form(self, count: int) -> int:
        """The number of rows that a step of `count` rows runs with."""
        return next(rows for rows in self.forms if rows >= count)

    def span(self, positions: int) -> int:
        """The smallest span that holds so many positions."""
        return next(span for span in self.spans if span >= positions)

    def run(self, span: int, rows: int) -> None:
        """Queue a step. The first of its kind runs without a graph, which TensorRT wants before a capture."""
        graph = self._graphs.get((span, rows))
        if graph is not None:
            self._device.driver.launch(graph, self._device.stream)
            return
        self._queue(span, rows)
        if self.refusal is None:
            self._capture(span, rows)

    def warm_up(self) -> None:
        """Capture what was not captured yet, and launch everything once; rows and caches are written over."""
        for span, rows in self._contexts:
            if (span, rows) not in self._graphs:
                self.run(span, rows)
            self.run(span, rows)
        self._device.synchronize()

    def _queue(self, span: int, rows: int) -> None:
        step, driver, stream = self._step, self._device.driver, self._device.stream
        places, sources = step.addresses, _places_in_upload(self._sizes, rows)
        for name in ("start", "allow_end"):
            first, size = sources[name]
            driver.copy(places[name], places["upload"] + first, size, stream)
        self._contexts[span, rows].enqueue()
        for source, target in (("codes", "codes_in"), ("recent_out", "recent")):
            driver.copy(places[target], places[source], rows * step.row_bytes(source), stream)

    def _capture(self, span: int, rows: int) -> None:
        try:
            self._graphs[span, rows] = self._device.capture(lambda: self._queue(span, rows))
        except DeviceLostError:
            raise
        except (CudaError, EngineSetError) as error:
            self.refusal = str(error)


_NO_INPUTS = ("upload", "codes", "recent_out", "hidden")


def forms_of(limits: Limits) -> tuple[int, ...]:
    """The numbers of rows that steps run with: one, or all, of which some may be idle."""
    return tuple(sorted({1, limits.max_batch}))


def _cache_shape(sizes: GptConfig, caches: Caches) -> tuple[int, int, int]:
    return sizes.num_attention_heads, caches.capacity, sizes.head_dim


def _places_in_upload(sizes: GptConfig, rows: int) -> dict[str, tuple[int, int]]:
    """First byte and size of each tensor of `step_upload`."""
    found, end = {}, 0
    for name, block in step_upload(sizes, rows).items():
        found[name] = end, block.bytes
        end += block.bytes
    return found
