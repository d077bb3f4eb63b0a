"""Every device buffer of the runtime with its size. The planner counts with the same functions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trt_tts.manifest import Limits
from trt_tts.model_config import CODE_HOP, HOP_LENGTH, MAX_CANDIDATES, PENALTY_WINDOW, GptConfig

ALIGNMENT = 256
"""TensorRT's kernels may read whole vectors: every tensor starts at a multiple of this."""


@dataclass(frozen=True)
class Block:
    """One tensor at its largest shape."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Of the tensor itself."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


def aligned(size: int) -> int:
    """`size` rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def total(blocks: dict[str, Block]) -> int:
    """Bytes of blocks that lie one after the other, each aligned."""
    return sum(aligned(block.bytes) for block in blocks.values())


def offsets(blocks: dict[str, Block]) -> dict[str, int]:
    """Where each of them starts."""
    found, end = {}, 0
    for name, block in blocks.items():
        found[name] = end
        end += aligned(block.bytes)
    return found


def step_upload(gpt: GptConfig, rows: int) -> dict[str, Block]:
    """What the host sends for one decode step, without gaps: at most 1 KB per row."""
    return {
        "noise": Block((rows, gpt.num_vq, MAX_CANDIDATES), "float32"),
        "start": Block((rows,), "int32"),
        "allow_end": Block((rows,), "bool"),
    }


def step_blocks(gpt: GptConfig, limits: Limits) -> dict[str, Block]:
    """Inputs and outputs of decode steps, caches apart; `upload` is where `step_upload` arrives, noise first."""
    rows, upload = limits.max_batch, step_upload(gpt, limits.max_batch)
    return {
        "upload": Block((sum(block.bytes for block in upload.values()),), "uint8"),
        "start": upload["start"],
        "allow_end": upload["allow_end"],
        "sampling": Block((rows, 4), "float32"),
        "last": Block((rows,), "int32"),
        "rows": Block((rows, 1, gpt.hidden_size), "float32"),
        "is_code": Block((rows, 1), "bool"),
        "span": Block((limits.capacity,), "int32"),
        "codes_in": Block((rows, 1, gpt.num_vq), "int32"),
        "codes": Block((rows, gpt.num_vq), "int32"),
        "recent": Block((rows, PENALTY_WINDOW, gpt.num_vq), "int32"),
        "recent_out": Block((rows, PENALTY_WINDOW, gpt.num_vq), "int32"),
        "hidden": Block((rows, gpt.hidden_size), "float32"),
    }


def prefill_upload(gpt: GptConfig, limits: Limits) -> dict[str, Block]:
    """What the host sends for a chunk of one row's prompt, each aligned; a short chunk ends within the last."""
    chunk = limits.prefill_chunk
    return {
        "start": Block((1,), "int32"),
        "last": Block((1,), "int32"),
        "allow_end": Block((1,), "bool"),
        "sampling": Block((1, 4), "float32"),
        "noise": Block((1, gpt.num_vq, MAX_CANDIDATES), "float32"),
        "is_code": Block((1, chunk), "bool"),
        "codes_in": Block((1, chunk, gpt.num_vq), "int32"),
        "rows": Block((1, chunk, gpt.hidden_size), "float32"),
    }


def prefill_blocks(gpt: GptConfig, limits: Limits) -> dict[str, Block]:
    """Inputs and outputs of prefill, caches apart."""
    return prefill_upload(gpt, limits) | {
        "codes": Block((1, gpt.num_vq), "int32"),
        "hidden": Block((1, gpt.hidden_size), "float32"),
        "recent": Block((1, PENALTY_WINDOW, gpt.num_vq), "int32"),
        "recent_out": Block((1, PENALTY_WINDOW, gpt.num_vq), "int32"),
    }


def codec_blocks(gpt: GptConfig, limits: Limits) -> dict[str, Block]:
    """One window of the codec."""
    return {
        "hidden": Block((1, limits.codec_steps, gpt.hidden_size), "float32"),
        "wav": Block((1, CODE_HOP * limits.codec_steps - HOP_LENGTH), "float32"),
    }


def io_bytes(gpt: GptConfig, limits: Limits) -> int:
    """Of all inputs and outputs but caches and hidden states."""
    return sum(total(part(gpt, limits)) for part in (step_blocks, prefill_blocks, codec_blocks))


def hidden_bytes(gpt: GptConfig, limits: Limits) -> int:
    """Of the hidden states of all rows, which the codec reads: float32 [capacity, rows, E]."""
    return 4 * limits.capacity * limits.max_batch * gpt.hidden_size


def cache_bytes(gpt: GptConfig, limits: Limits, item_size: int) -> int:
    """Of the key-value caches: 2 x layers x [rows, H, C, D]."""
    return 2 * gpt.num_hidden_layers * limits.max_batch * limits.capacity * gpt.hidden_size * item_size
