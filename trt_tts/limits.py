"""What a set is built for: batch, positions, chunk."""

from __future__ import annotations

import math

from trt_tts.errors import UsageError
from trt_tts.model_config import STEPS_PER_SECOND, ModelConfig

DEFAULT_CAPACITY = 2048
PROMPT_ROOM = 256
"""Positions that --max-seconds leaves for the prompt."""
CAPACITY_STEP = 64
PREFILL_CHUNK = 128
LARGEST_BATCH = 64
LONGEST_SECONDS = 3600


def require_limits(max_batch: int, max_seconds: float | None) -> None:
    """Raises UsageError when one of the two is out of range for every model."""
    if not 1 <= max_batch <= LARGEST_BATCH:
        raise UsageError(f"max-batch is {max_batch}; allowed: 1 to {LARGEST_BATCH}")
    if max_seconds is not None and not 1 <= max_seconds <= LONGEST_SECONDS:
        raise UsageError(f"max-seconds is {max_seconds}; allowed: 1 to {LONGEST_SECONDS}")


def capacity_for(config: ModelConfig, max_seconds: float | None) -> int:
    """Key-value positions per sequence: the prompt's room and the steps of `max_seconds`.

    Raises:
        UsageError: the model's positions do not reach that far.
    """
    most = config.gpt.max_position_embeddings
    if max_seconds is None:
        return min(DEFAULT_CAPACITY, most)
    wanted = PROMPT_ROOM + math.ceil(max_seconds * STEPS_PER_SECOND)
    rounded = -(-wanted // CAPACITY_STEP) * CAPACITY_STEP
    if rounded > most:
        raise UsageError(f"max-seconds is {max_seconds:g}; this model's positions allow at most {speech_of(most):.0f}")
    return rounded


def speech_of(capacity: int) -> float:
    """Seconds of speech that fit beside the prompt's room; 0 where nothing does."""
    return max(0, capacity - PROMPT_ROOM) / STEPS_PER_SECOND
