from hypothesis import given
from hypothesis import strategies as st

from trt_tts.gpu.layout import (
    ALIGNMENT,
    codec_blocks,
    io_bytes,
    offsets,
    prefill_blocks,
    prefill_upload,
    step_blocks,
    step_upload,
    total,
)
from trt_tts.manifest import Limits
from trt_tts.model_config import ModelConfig

GPT = ModelConfig().gpt
LIMITS = st.builds(Limits, st.integers(1, 64), st.integers(300, 4096), st.integers(1, 128), st.integers(150, 512))


@given(LIMITS)
def test_tensors_are_aligned_and_do_not_overlap(limits):
    for blocks in (step_blocks(GPT, limits), prefill_blocks(GPT, limits), codec_blocks(GPT, limits)):
        end = 0
        for name, first in offsets(blocks).items():
            assert first % ALIGNMENT == 0
            assert end <= first < end + ALIGNMENT
            end = first + blocks[name].bytes
        assert end <= total(blocks) < end + ALIGNMENT


@given(st.integers(1, 64))
def test_the_host_sends_less_than_a_kilobyte_per_row_and_step(rows):
    assert sum(block.bytes for block in step_upload(GPT, rows).values()) == rows * (4 * 50 * 4 + 4 + 1)


@given(LIMITS)
def test_a_prompts_tensors_begin_with_what_is_sent_and_end_with_the_rows(limits):
    upload, everything = prefill_upload(GPT, limits), prefill_blocks(GPT, limits)
    assert list(everything)[: len(upload)] == list(upload)
    assert list(upload)[-1] == "rows"


def test_published_sizes_take_three_megabytes_at_batch_4():
    assert 3.0e6 < io_bytes(GPT, Limits(4, 2048, 128, 512)) < 3.2e6
