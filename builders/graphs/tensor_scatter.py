"""The in-place key-value cache write as a torch operator that exports to ONNX `TensorScatter` (opset 24)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, library


@library.custom_op("trt_tts::tensor_scatter", mutates_args=())
def tensor_scatter(cache: Tensor, update: Tensor, start: Tensor) -> Tensor:
    """Write `update` [B, H, S, D] into `cache` [B, H, C, D] at positions start[b] .. start[b] + S - 1 (int32 [B])."""
    written = cache.clone()
    for row, first in enumerate(start.tolist()):
        written[row, :, first : first + update.shape[2]] = update[row]
    return written


@tensor_scatter.register_fake
def _(cache: Tensor, update: Tensor, start: Tensor) -> Tensor:
    return torch.empty_like(cache)


def translation_table() -> dict[Callable[..., Any], Callable[..., Any]]:
    """What `torch.onnx.export(custom_translation_table=)` needs to export `tensor_scatter`."""
    from onnxscript.values import Opset

    op = Opset("", 24)

    def to_onnx(cache: Any, update: Any, start: Any) -> Any:
        return op.TensorScatter(cache, update, op.Cast(start, to=7), axis=-2, mode="linear")

    return {torch.ops.trt_tts.tensor_scatter.default: to_onnx}
