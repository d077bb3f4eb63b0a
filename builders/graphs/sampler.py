"""Sampling inside the graph: temperature, windowed repetition penalty, top-P, top-K, Gumbel-max.

The order is ChatTTS's. Taking the best K first and testing the cumulative probability inside them, with the normaliser
of the full softmax, keeps the same set as top-P followed by top-K.
"""

from __future__ import annotations

import torch
from torch import Tensor

from trt_tts.model_config import MAX_CANDIDATES, MIN_CANDIDATES

_LARGEST = 3e38
_EXCLUDED = -1e9


def sample(
    logits: Tensor, recent: Tensor, noise: Tensor, sampling: Tensor, allow_end: Tensor, end_id: int
) -> tuple[Tensor, Tensor]:
    """Draw one id per row and codebook.

    Args:
        logits: float32 [B, Q, V].
        recent: int32 [B, W, Q], the ids the penalty counts; -1 where there is none yet.
        noise: float32 [B, Q, K] of Gumbel(0, 1), indexed by rank; zeros give the argmax.
        sampling: float32 [B, 4]: temperature, top-P, top-K, repetition penalty.
        allow_end: bool [B]; `end_id` is not drawn where false.
        end_id: the id that ends a row.

    Returns:
        ids int32 [B, Q], -1 in every codebook of a row whose logits are not finite, and the next `recent`.
    """
    temperature, top_p, top_k, penalty = sampling[:, :, None, None].unbind(1)
    # A sum keeps NaN and infinity where a maximum may drop them.
    finite = logits.abs().sum((1, 2)) < _LARGEST
    scores = penalise(logits / temperature, recent, penalty)
    best, index = scores.topk(MAX_CANDIDATES, dim=2)
    keep = keep_candidates(scores, best, top_p, top_k)
    keep = keep & (allow_end[:, None, None] | (index != end_id))
    choice = torch.where(keep, best + noise, _EXCLUDED).argmax(dim=2, keepdim=True)
    ids = index.gather(2, choice).squeeze(2).to(torch.int32)
    ids = torch.where(finite[:, None], ids, -1)
    return ids, torch.cat([recent[:, 1:], ids[:, None]], dim=1)


def penalise(scores: Tensor, recent: Tensor, penalty: Tensor) -> Tensor:
    """Scale scores [B, Q, V] by penalty ** (occurrences in `recent`): negative ones up, positive ones down."""
    vocabulary = torch.arange(scores.shape[2], dtype=torch.int32)
    counts = (recent[..., None] == vocabulary).to(scores.dtype).sum(1)
    factor = penalty**counts
    return torch.where(scores < 0, scores * factor, scores / factor)


def keep_candidates(scores: Tensor, best: Tensor, top_p: Tensor, top_k: Tensor) -> Tensor:
    """Which of the best candidates [B, Q, K], in falling order, top-P and top-K keep."""
    top = best[..., :1]
    probability = torch.exp(best - top) / torch.exp(scores - top).sum(2, keepdim=True)
    better = probability.cumsum(2) - probability
    rank = torch.arange(MAX_CANDIDATES, dtype=torch.float32)
    return (rank < MIN_CANDIDATES) | ((better < top_p) & (rank < top_k))
