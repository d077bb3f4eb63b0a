"""What a set takes on a GPU, part by part, and what to do where that is too much."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from trt_tts.backend import MemoryPart
from trt_tts.errors import CapacityError
from trt_tts.gpu.decode import DECODE, forms_of
from trt_tts.gpu.layout import cache_bytes, codec_blocks, hidden_bytes, io_bytes
from trt_tts.gpu.staging import SLOTS, slot_bytes
from trt_tts.gpu_reading import GpuReading, MemoryUser
from trt_tts.limits import CAPACITY_STEP, PROMPT_ROOM, speech_of
from trt_tts.manifest import GraphInfo, Limits, Manifest
from trt_tts.model_config import GptConfig

ACTIVATIONS = "activations"


def engine_parts(graphs: Mapping[str, GraphInfo], gpt: GptConfig, limits: Limits) -> tuple[MemoryPart, ...]:
    """Device and pinned memory of a loaded set, by what its builder reports of the plans."""
    resident = {name: graph.plan for name, graph in graphs.items() if graph.resident and graph.plan is not None}
    profiles = [profile for plan in resident.values() for profile in plan.profiles]
    forms = len(forms_of(limits))
    contexts = sum(item.persistent_bytes * (forms if item.name.startswith(DECODE) else 1) for item in profiles)
    return (
        *(MemoryPart(f"{name} weights", plan.weight_bytes, "device") for name, plan in resident.items()),
        MemoryPart("contexts", contexts, "device"),
        MemoryPart("KV cache", cache_bytes(gpt, limits, cache_item_size(graphs["gpt"])), "device"),
        MemoryPart("hidden states", hidden_bytes(gpt, limits), "device"),
        MemoryPart(ACTIVATIONS, max(item.activation_bytes for item in profiles), "device"),
        MemoryPart("inputs and outputs", io_bytes(gpt, limits), "device"),
        MemoryPart("staging", pinned_bytes(gpt, limits), "pinned"),
    )


def weights_and_contexts(graph: GraphInfo) -> int:
    """Device bytes of a plan with one context per profile."""
    plan = graph.plan
    return 0 if plan is None else plan.weight_bytes + sum(profile.persistent_bytes for profile in plan.profiles)


def cache_item_size(gpt: GraphInfo) -> int:
    """Bytes of a number in the key-value caches."""
    return np.dtype(next(item.dtype for item in gpt.inputs if item.name == "k_0")).itemsize


def pinned_bytes(gpt: GptConfig, limits: Limits) -> int:
    """Of staging memory: two calls of the decode loop, and the codec's sound."""
    return SLOTS * slot_bytes(gpt, limits) + codec_blocks(gpt, limits)["wav"].bytes


def device_total(parts: tuple[MemoryPart, ...]) -> int:
    """Bytes on the GPU."""
    return sum(part.bytes for part in parts if part.where == "device")


def require_memory(
    manifest: Manifest,
    parts: tuple[MemoryPart, ...],
    free: int,
    gpu: GpuReading | None,
    users: tuple[MemoryUser, ...],
    memory_limit: int | None,
) -> None:
    """Check that the parts fit before anything is allocated.

    Args:
        manifest: of the set.
        parts: as `engine_parts` gives them.
        free: bytes that the GPU has free.
        gpu: the GPU, where the driver tells.
        users: what else holds memory, where the driver tells.
        memory_limit: most bytes to take.

    Raises:
        CapacityError: says what takes how much, who has the rest, and what would fit.
    """
    needed, budget = device_total(parts), free if memory_limit is None else min(free, memory_limit)
    if needed <= budget:
        return
    limited = budget == memory_limit
    allowed = "memory_limit allows" if limited else "free on the GPU are"
    lines = [f"the engine takes {needed / 1e6:.1f} MB of GPU memory; {allowed} {budget / 1e6:.1f} MB:"]
    lines += [f"  {part.name}: {part.bytes / 1e6:.1f} MB" for part in parts if part.where == "device"]
    if gpu is not None and not limited:
        lines.append(f"{(gpu.memory - free) / 1e6:.0f} of {gpu.memory / 1e6:.0f} MB of {gpu.name} are taken by others:")
        lines += [f"  {user}" for user in users] or ["  the driver does not say by whom"]
    offers = list(_offers(manifest, budget))
    if limited:
        offers = [f"memory_limit of at least {needed / 1e6:.1f} MB", *offers]
    lines.append(f"What would fit: {'; or '.join(offers)}" if offers else "Nothing smaller fits: close other programs")
    raise CapacityError("\n".join(lines))


def require_limit(what: str, more: int, held: int, memory_limit: int | None) -> None:
    """Raises CapacityError where `more` bytes for `what`, beside those `held`, exceed the limit."""
    if memory_limit is not None and held + more > memory_limit:
        raise CapacityError(
            f"{what} takes {more / 1e6:.1f} MB of GPU memory beside the {held / 1e6:.1f} MB in use; "
            f"memory_limit allows {memory_limit / 1e6:.1f} MB in all. Raise it, or do without"
        )


def _offers(manifest: Manifest, budget: int) -> Iterator[str]:
    """Ways to build the set anew, smaller."""
    limits = manifest.limits

    def fits(**changed: int) -> bool:
        smaller = replace(limits, **changed)
        return device_total(engine_parts(manifest.graphs, manifest.config.gpt, smaller)) <= budget

    batch = next((rows for rows in range(limits.max_batch - 1, 0, -1) if fits(max_batch=rows)), 0)
    if batch:
        yield f"trt-tts build --max-batch {batch}"
    shorter = range(limits.capacity - CAPACITY_STEP, PROMPT_ROOM, -CAPACITY_STEP)
    seconds = int(speech_of(next((positions for positions in shorter if fits(capacity=positions)), 0)))
    if seconds:
        yield f"trt-tts build --max-batch {limits.max_batch} --max-seconds {seconds}"
