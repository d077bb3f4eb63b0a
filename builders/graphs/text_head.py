"""The `text_head` graph: hidden state -> next text id, for the refine pass."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW
from trt_tts.text.tokenizer import load_tokenizer

from ..checkpoint import TOKENIZER, Checkpoint
from .graph import Graph
from .sampler import sample


class TextHead(nn.Module):
    """A linear head over the text vocabulary and the sampler; one "codebook" wide."""

    def __init__(self, weight: Tensor, end_id: int) -> None:
        super().__init__()
        self.head_text = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
        self.head_text.weight = nn.Parameter(weight)
        self.end_id = end_id

    def forward(
        self, hidden: Tensor, recent: Tensor, noise: Tensor, sampling: Tensor, allow_end: Tensor
    ) -> tuple[Tensor, Tensor]:
        """hidden [B, E], recent int32 [B, 16, 1], noise [B, 1, K] -> ids int32 [B, 1] and the next `recent`."""
        return sample(self.head_text(hidden)[:, None], recent, noise, sampling, allow_end, self.end_id)


def text_head_graph(checkpoint: Checkpoint) -> Graph:
    """The `text_head` graph; rows end at `[Ebreak]`."""
    end_id = load_tokenizer(checkpoint.path / TOKENIZER).special("[Ebreak]")
    weight = torch.from_numpy(checkpoint.tensors["embed"]["head_text.weight"])
    names = ("hidden", "recent", "noise", "sampling", "allow_end")
    return Graph(
        name="text_head",
        module=TextHead(weight, end_id).eval(),
        outputs=("ids", "recent_out"),
        dynamic={name: {0: "B"} for name in names},
        samples=tuple(_sample(checkpoint.config.gpt.hidden_size, weight.shape[0], batch) for batch in (2, 1, 3)),
    )


def _sample(width: int, vocabulary: int, batch: int) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(batch)
    return {
        "hidden": torch.randn(batch, width, generator=random),
        "recent": torch.randint(-1, vocabulary, (batch, PENALTY_WINDOW, 1), generator=random).int(),
        "noise": torch.randn(batch, 1, MAX_CANDIDATES, generator=random),
        "sampling": torch.tensor([[0.7, 0.7, 20.0, 1.0]]).repeat(batch, 1),
        "allow_end": torch.arange(batch) % 2 == 0,
    }
