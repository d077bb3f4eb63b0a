"""The refine pass: the model rewrites a text with pauses, fillers and laughter before it is spoken."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.backend import Runner, TextHead
from trt_tts.errors import CapacityError, GenerationError
from trt_tts.generation import Sampling
from trt_tts.model_config import MAX_CANDIDATES
from trt_tts.random_numbers import gumbel_noise
from trt_tts.text.tokenizer import Tokenizer

SAMPLING = Sampling(temperature=0.7, top_p=0.7, top_k=20, repetition_penalty=1.0)
"""ChatTTS's defaults for this pass."""
MOST_TOKENS = 384
_NOISE_SEGMENT = 1 << 62
"""Keeps this pass's noise apart from the speech's."""


def refine_text(
    runner: Runner,
    head: TextHead,
    embedding: npt.NDArray[Any],
    tokenizer: Tokenizer,
    prompt: str,
    seed: int,
) -> str:
    """Generate text after `prompt` until `[Ebreak]` or the limit; may be empty.

    Args:
        runner: its row 0 is used.
        head: reads the runner's hidden state.
        embedding: the text table [V, E].
        tokenizer: the checkpoint's.
        prompt: as `refine_prompt` makes it.
        seed: keys the sampling noise.

    Raises:
        CapacityError: the prompt does not fit.
        GenerationError: the model's numbers were not finite.
    """
    ids = tokenizer.encode(prompt)
    room = min(MOST_TOKENS, runner.capacity - len(ids))
    if room < 1:
        raise CapacityError(f"the text is {len(ids)} tokens long; refining it needs fewer than {runner.capacity}")
    # Break, laugh, oral and speed tags instruct the prompt; in the answer they are left out, as ChatTTS does.
    first_instruction, end = tokenizer.special("[break_0]"), tokenizer.special("[Ebreak]")
    runner.reset()
    runner.sampling[0] = SAMPLING.row()
    head.start()
    sampling = np.array([SAMPLING.row()], np.float32)
    answer: list[int] = []
    _feed(runner, embedding, ids, first=True)
    for step in range(room):
        noise = gumbel_noise(seed, _NOISE_SEGMENT, step, MAX_CANDIDATES).reshape(1, 1, -1)
        drawn = head.draw(noise, sampling)
        if drawn < 0:
            raise GenerationError(f"the refine pass's numbers stopped being finite at token {step} (seed {seed})")
        if drawn == end:
            break
        answer.append(drawn)
        _feed(runner, embedding, [drawn], first=False)
    return tokenizer.decode([token for token in answer if token < first_instruction])


def _feed(runner: Runner, embedding: npt.NDArray[Any], ids: list[int], first: bool) -> None:
    rows = embedding[ids].astype(np.float32)
    codes = np.zeros((len(ids), runner.sizes.num_vq), np.int32)
    write = runner.prefill if first else runner.extend
    write(0, 0 if first else 1, rows, codes, np.zeros(len(ids), np.bool_))
