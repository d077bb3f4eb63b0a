"""Requests with another prompt."""

from dataclasses import replace

import numpy as np

from trt_tts.generation import Prompt, Request


def with_rows(request: Request, rows: np.ndarray) -> Request:
    """The request with the text positions `rows`, float32 [S, E]."""
    prompt = Prompt.of(rows, np.zeros((0, 4), np.int32))
    return replace(request, prompt=lambda: prompt)


def spoiled(request: Request, value: float = np.nan, where: int | slice = slice(None)) -> Request:
    """The request with `value` in some of its positions."""
    rows = request.prompt().embedded.copy()
    rows[where] = value
    return with_rows(request, rows)
