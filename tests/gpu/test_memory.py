import re
from dataclasses import replace

import pytest

from trt_tts.builders.cards import load_cards
from trt_tts.builders.planner import plan_memory
from trt_tts.errors import CapacityError
from trt_tts.gpu.memory import device_total, engine_parts, require_memory
from trt_tts.gpu_reading import GpuReading, MemoryUser
from trt_tts.limits import capacity_for
from trt_tts.manifest import Manifest

MB = 1_000_000
CARD = GpuReading("GTX 1650", 4_294_705_152, 700 * MB, "7.5", "580.0")
USERS = (MemoryUser("browser", 41, 350 * MB), MemoryUser("desktop", 7, None))


@pytest.fixture(scope="module")
def manifest(demo_gpu_set):
    return Manifest.load(demo_gpu_set)


@pytest.fixture(scope="module")
def parts(manifest):
    return engine_parts(manifest.graphs, manifest.config.gpt, manifest.limits)


def refusal(manifest, parts, free, limit=None, gpu=CARD, users=USERS):
    with pytest.raises(CapacityError) as caught:
        require_memory(manifest, parts, free, gpu, users, limit)
    return str(caught.value)


def test_parts_are_those_of_the_plan(manifest, parts):
    plan = plan_memory(manifest.config, load_cards()["gtx1650"], "fp16", manifest.limits.max_batch)
    planned = {part.name: part.bytes for part in plan.parts}
    for part in parts:
        if part.name in ("KV cache", "hidden states", "inputs and outputs"):
            assert part.bytes == planned[part.name]
    recorded = {line.part: line.built for line in manifest.memory if line.built is not None}
    for part in parts:
        assert part.where == "pinned" or part.name == "contexts" or recorded[part.name] == part.bytes


def test_what_just_fits_is_accepted(manifest, parts):
    needed = device_total(parts)
    require_memory(manifest, parts, needed, CARD, USERS, None)
    require_memory(manifest, parts, needed + MB, CARD, USERS, needed)
    refusal(manifest, parts, needed - 1)


def test_the_refusal_has_every_part_the_other_programs_and_what_fits(manifest, parts):
    said = refusal(manifest, parts, device_total(parts) - 1)
    for part in parts:
        if part.where == "device":
            assert f"{part.name}: {part.bytes / 1e6:.1f} MB" in said
    assert "browser (process 41): 350 MB" in said
    assert "desktop (process 7): an unknown amount" in said
    assert "trt-tts build --max-batch 3; or trt-tts build --max-batch 4 --max-seconds" in said


def test_a_limit_is_the_users_own_and_blames_nobody(manifest, parts):
    said = refusal(manifest, parts, 10**10, limit=50 * MB)
    assert "memory_limit allows 50.0 MB" in said
    assert "browser" not in said


def test_offers_really_fit(manifest, parts):
    for free in (device_total(parts) - 1, device_total(parts) // 2, 60 * MB):
        said = refusal(manifest, parts, free)
        for rows, seconds in re.findall(r"--max-batch (\d+)(?: --max-seconds (\d+))?", said):
            capacity = capacity_for(manifest.config, int(seconds)) if seconds else manifest.limits.capacity
            smaller = replace(manifest.limits, max_batch=int(rows), capacity=capacity)
            assert device_total(engine_parts(manifest.graphs, manifest.config.gpt, smaller)) <= free


def test_where_nothing_fits_it_says_so(manifest, parts):
    assert "Nothing smaller fits: close other programs" in refusal(manifest, parts, MB)
    assert "the driver does not say by whom" in refusal(manifest, parts, MB, users=())
    assert "are taken by others" not in refusal(manifest, parts, MB, gpu=None)
