"""The `codec` graph: hidden states -> waveform (ChatTTS's "Decoder", then Vocos)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..checkpoint import Checkpoint
from .graph import Graph
from .layers import MelDecoder
from .vocos import Vocos, load_vocos
from .weights import load_state


class Codec(nn.Module):
    """Hidden states of the transformer to sound."""

    def __init__(self, decoder: MelDecoder, vocos: Vocos) -> None:
        super().__init__()
        self.decoder, self.vocos = decoder, vocos

    def forward(self, hidden: Tensor) -> Tensor:
        """[1, T, E] -> wav [1, 256 * (2T - 1)]."""
        return self.vocos(self.decoder(hidden))


def codec_graph(checkpoint: Checkpoint) -> Graph:
    """The `codec` graph."""
    sizes = checkpoint.config
    decoder = MelDecoder(sizes.decoder, sizes.vocos.feature_extractor.n_mels)
    load_state(decoder, checkpoint.tensors["decoder"], prefixes=("coef", "decoder.", "out_conv."))
    random = torch.Generator().manual_seed(0)
    return Graph(
        name="codec",
        module=Codec(decoder, load_vocos(checkpoint)).eval(),
        outputs=("wav",),
        dynamic={"hidden": {1: "T"}},
        samples=tuple(
            {"hidden": torch.randn(1, steps, sizes.gpt.hidden_size, generator=random)} for steps in (7, 1, 2, 64)
        ),
    )
