"""Pinned memory that calls of the runner send from and receive in. Two calls are under way at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trt_tts.backend import I32
from trt_tts.cuda.device import Device
from trt_tts.cuda.driver import Pinned
from trt_tts.gpu.decode import forms_of
from trt_tts.gpu.layout import aligned, prefill_upload, step_upload, total
from trt_tts.gpu.tensors import Staging
from trt_tts.manifest import Limits
from trt_tts.model_config import GptConfig

SLOTS = 2


@dataclass(frozen=True, eq=False)
class Slot:
    """What one call uses."""

    steps: dict[int, Staging]
    """By the number of rows a step runs with."""
    prompt: Staging
    codes: I32
    """[rows, 4]"""
    codes_memory: Pinned
    event: int


def slot_bytes(sizes: GptConfig, limits: Limits) -> int:
    """Of one slot's pinned memory."""
    steps = sum(block.bytes for block in step_upload(sizes, limits.max_batch).values())
    codes = 4 * limits.max_batch * sizes.num_vq
    return aligned(steps) + total(prefill_upload(sizes, limits)) + aligned(codes)


def make_slots(device: Device, memory: Pinned, sizes: GptConfig, limits: Limits) -> list[Slot]:
    """Cut `memory`, SLOTS x `slot_bytes`, into slots and zero them."""
    memory.array[:] = 0
    size = slot_bytes(sizes, limits)
    return [_slot(device, memory.part(i * size, size), sizes, limits) for i in range(SLOTS)]


def _slot(device: Device, memory: Pinned, sizes: GptConfig, limits: Limits) -> Slot:
    rows, prompt = limits.max_batch, prefill_upload(sizes, limits)
    # A step of one row and one of all rows are never prepared at the same time, so they share their place.
    steps = {form: Staging(memory, step_upload(sizes, form), tight=True) for form in forms_of(limits)}
    first = aligned(steps[rows].bytes)
    end = first + total(prompt)
    codes = memory.part(end, 4 * rows * sizes.num_vq)
    return Slot(
        steps=steps,
        prompt=Staging(memory.part(first, total(prompt)), prompt, tight=False),
        codes=codes.array.view(np.int32).reshape(rows, -1),
        codes_memory=codes,
        event=device.create_event(),
    )
