"""Runs the `gpt` plan: prefill and decode steps that the host neither feeds nor waits for."""

from __future__ import annotations

import numpy as np

from trt_tts.backend import F32, I32, Flags
from trt_tts.cuda.driver import Pinned
from trt_tts.errors import CapacityError
from trt_tts.gpu.caches import Caches
from trt_tts.gpu.decode import Decode
from trt_tts.gpu.hidden_states import HiddenStates, States
from trt_tts.gpu.layout import prefill_blocks, step_blocks
from trt_tts.gpu.plan import Context, Plan
from trt_tts.gpu.prefill import Prefill
from trt_tts.gpu.staging import Slot, make_slots
from trt_tts.gpu.tensors import Tensors
from trt_tts.manifest import Limits
from trt_tts.model_config import MAX_CANDIDATES, GptConfig

_UNSEEN = 0xFF
"""Of every byte of a penalty window: the codes in it are -1."""


class GpuDrawn:
    """See `trt_tts.backend.Drawn`."""

    def __init__(self, runner: GpuGptRunner, slot: Slot, count: int) -> None:
        self._runner, self._slot, self._count = runner, slot, count

    def codes(self) -> I32:
        """As `Drawn.codes`."""
        return self._runner.read(self._slot, self._count)


class GpuGptRunner:
    """See `trt_tts.backend.Runner`. While the host reads the codes of one call, the next one runs."""

    lag = 1

    def __init__(self, plan: Plan, sizes: GptConfig, limits: Limits, item_size: int) -> None:
        """Make the contexts and allocate what is needed besides inputs and outputs.

        Args:
            plan: of the `gpt` graph.
            sizes: of the model.
            limits: of the set.
            item_size: bytes of a number in the caches.

        Raises:
            DeviceMemoryError: the memory does not suffice.
            EngineSetError: the plan is not made for the set's limits.
        """
        self._device, self.sizes, self._limits = plan.device, sizes, limits
        self.capacity = limits.capacity
        rows = limits.max_batch
        self.noise: F32 = np.zeros((rows, sizes.num_vq, MAX_CANDIDATES), np.float32)
        self.sampling: F32 = np.zeros((rows, 4), np.float32)
        self.allow_end: Flags = np.zeros(rows, np.bool_)
        self._position = np.zeros(rows, np.int32)
        self._first = [0] * rows
        self._calls = 0
        self.decode, self.prefilling = Decode(plan, sizes, limits), Prefill(plan, sizes, limits)
        self.caches = Caches(self._device, sizes, limits, item_size)
        self.states = HiddenStates(self._device, sizes, limits)

    def bind(self, address: int, pinned: Pinned) -> None:
        """Take inputs and outputs from `address` on, `step_blocks` then `prefill_blocks`, and pinned memory."""
        self._step = Tensors(address, step_blocks(self.sizes, self._limits))
        self._prompt = Tensors(address + self._step.bytes, prefill_blocks(self.sizes, self._limits))
        self._slots = make_slots(self._device, pinned, self.sizes, self._limits)
        self._send_constants()
        self.decode.bind(self._step, self.caches)
        self.prefilling.bind(self._prompt, self._step.addresses["span"], self.caches)

    @property
    def contexts(self) -> list[Context]:
        """All contexts, for the activation memory they share."""
        return [self.prefilling.context, *self.decode.contexts]

    @property
    def io_bytes(self) -> int:
        """What `bind` takes from its address on."""
        return self._step.bytes + self._prompt.bytes

    @property
    def last_hidden(self) -> int:
        """Address of the state behind the last prefill's codes, float32 [1, E]."""
        return self._prompt.addresses["hidden"]

    def reset(self) -> None:
        """As `Runner.reset`."""
        self._device.synchronize()
        self._position[:] = 0

    def warm_up(self) -> None:
        """Capture every graph and launch it once: the driver takes memory for that."""
        self.reset()
        # The last step may have been one of another number of rows: its noise would be read as positions.
        upload, stream = self._step.addresses["upload"], self._device.stream
        self._device.driver.fill(upload, 0, self._step.blocks["upload"].bytes, stream)
        self.decode.warm_up()

    def prefill(self, row: int, used_rows: int, embedded: F32, codes: I32, is_code: Flags) -> GpuDrawn:
        """As `Runner.prefill`."""
        driver, stream = self._device.driver, self._device.stream
        # A masked NaN of the last sequence, or of a step it took in vain, would still be a NaN.
        self.caches.clear_row(row)
        driver.fill(self._step.row("recent", row), _UNSEEN, self._step.row_bytes("recent"), stream)
        self._position[row], self._first[row] = 0, self.states.now
        return self.extend(row, used_rows, embedded, codes, is_code)

    def extend(self, row: int, used_rows: int, embedded: F32, codes: I32, is_code: Flags) -> GpuDrawn:
        """As `Runner.extend`."""
        length = int(self._position[row]) + len(embedded)
        if length > self.capacity:
            raise CapacityError(f"{length} positions do not fit the capacity of {self.capacity}")
        slot = self._next_slot()
        self._copy_row("recent", "recent", row, up=False)
        for first in range(0, len(embedded), self._limits.prefill_chunk):
            if first:
                self._device.synchronize()  # the chunk before has left the staging memory
            part = slice(first, min(first + self._limits.prefill_chunk, len(embedded)))
            self._fill_staging(slot, row)
            span = self.decode.span(int(self._position[row]) + part.stop - first)
            self.prefilling.run(row, span, slot.prompt, embedded[part], codes[part], is_code[part])
            self._position[row] += part.stop - first
        for source, target in (("codes", "codes_in"), ("recent_out", "recent"), ("sampling", "sampling")):
            self._copy_row(source, target, row, up=True)
        self.states.add(row, self._prompt.addresses["hidden"])
        return self._send_codes(slot, self._prompt.addresses["codes"], 1)

    def step(self, count: int) -> GpuDrawn:
        """As `Runner.step`."""
        longest = int(self._position[:count].max()) + 1
        if longest > self.capacity:
            raise CapacityError(f"a sequence would exceed the capacity of {self.capacity} positions")
        rows, slot = self.decode.form(count), self._next_slot()
        staging = slot.steps[rows]
        staging.arrays["noise"][:count] = self.noise[:count]
        staging.arrays["allow_end"][:count] = self.allow_end[:count]
        # Idle rows write where nothing is kept: each overwrites the first position of its own cache.
        staging.arrays["start"][:count], staging.arrays["start"][count:] = self._position[:count], 0
        upload = staging.up_to(staging.bytes)
        self._device.driver.copy_up(self._step.addresses["upload"], upload, self._device.stream)
        self.decode.run(self.decode.span(longest), rows)
        self.states.advance(self._step.addresses["hidden"], rows)
        self._position[:count] += 1
        return self._send_codes(slot, self._step.addresses["codes"], count)

    def move(self, source: int, target: int) -> None:
        """As `Runner.move`."""
        driver, stream, step = self._device.driver, self._device.stream, self._step
        self.caches.move(source, target)
        self.states.move(source, target)
        for name in ("codes_in", "recent", "sampling"):
            driver.copy(step.row(name, target), step.row(name, source), step.row_bytes(name), stream)
        self._position[target], self._first[target] = self._position[source], self._first[source]

    def hidden(self, row: int, first: int, steps: int) -> States:
        """As `Runner.hidden`: a place in `states`."""
        return States(row, self._first[row] + first, steps)

    def read(self, slot: Slot, count: int) -> I32:
        """The codes that a call sent to its slot."""
        self._device.driver.wait(slot.event)
        return slot.codes[:count].copy()

    def _next_slot(self) -> Slot:
        """No call but the last may still use the other one: `lag` is 1."""
        self._calls += 1
        return self._slots[self._calls % len(self._slots)]

    def _fill_staging(self, slot: Slot, row: int) -> None:
        arrays = slot.prompt.arrays
        for name, values in (("noise", self.noise), ("sampling", self.sampling), ("allow_end", self.allow_end)):
            arrays[name][0] = values[row]
        arrays["start"][0] = self._position[row]

    def _copy_row(self, prompt: str, step: str, row: int, up: bool) -> None:
        """Between the prefill's tensors and the row's place in those of the steps."""
        first, second = self._prompt.addresses[prompt], self._step.row(step, row)
        target, source = (second, first) if up else (first, second)
        self._device.driver.copy(target, source, self._step.row_bytes(step), self._device.stream)

    def _send_codes(self, slot: Slot, source: int, count: int) -> GpuDrawn:
        driver, stream = self._device.driver, self._device.stream
        driver.copy_down(slot.codes_memory.part(0, slot.codes[:count].nbytes), source, stream)
        driver.record(slot.event, stream)
        return GpuDrawn(self, slot, count)

    def _send_constants(self) -> None:
        """What never changes: zeros, ones for `is_code`, and the positions."""
        device, step = self._device, self._step
        device.driver.fill(step.address, 0, self.io_bytes, device.stream)
        device.driver.fill(step.addresses["is_code"], 1, step.blocks["is_code"].bytes, device.stream)
        positions = device.allocate_pinned(step.blocks["span"].bytes)
        positions.array.view(np.int32)[:] = np.arange(self.capacity)
        device.driver.copy_up(step.addresses["span"], positions, device.stream)
        device.synchronize()
        device.free_pinned(positions)
