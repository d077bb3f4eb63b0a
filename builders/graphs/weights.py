"""Fills modules from checkpoint tensors."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from ..checkpoint import Array

M = TypeVar("M", bound=nn.Module)


def load_state(module: M, tensors: dict[str, Array], prefixes: tuple[str, ...], strip: str = "") -> M:
    """Load the tensors whose names start with one of `prefixes`, with `strip` removed from the names.

    Raises:
        KeyError: a tensor has no place in `module`, or a parameter under `prefixes` gets no tensor.
    """
    state = {
        name.removeprefix(strip): torch.from_numpy(value)
        for name, value in tensors.items()
        if name.startswith(prefixes)
    }
    result = module.load_state_dict(state, strict=False, assign=True)
    unmet = [name for name in result.missing_keys if (strip + name).startswith(prefixes)]
    if unmet or result.unexpected_keys:
        raise KeyError(f"weights do not match the module: unmet {unmet}, left over {result.unexpected_keys}")
    return module.eval()
