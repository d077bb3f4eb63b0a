"""The Vocos vocoder: log-mel to waveform."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trt_tts.model_config import MelConfig, VocosConfig

from ..checkpoint import Checkpoint
from .layers import ConvNeXtBlock
from .spectrum import InverseSTFT
from .weights import load_state

LARGEST_MAGNITUDE = 1e2


class Backbone(nn.Module):
    """ConvNeXt blocks between two norms."""

    def __init__(self, sizes: VocosConfig) -> None:
        super().__init__()
        net = sizes.backbone
        self.embed = nn.Conv1d(sizes.feature_extractor.n_mels, net.dim, 7, padding=3)
        self.norm = nn.LayerNorm(net.dim, eps=1e-6)
        self.convnext = nn.ModuleList(
            ConvNeXtBlock(net.dim, net.intermediate_dim, 1, "gamma") for _ in range(net.num_layers)
        )
        self.final_layer_norm = nn.LayerNorm(net.dim, eps=1e-6)

    def forward(self, mel: Tensor) -> Tensor:
        """[B, mels, F] -> [B, F, dim]."""
        x = self.norm(self.embed(mel).transpose(1, 2)).transpose(1, 2)
        for block in self.convnext:
            x = block(x)
        return self.final_layer_norm(x.transpose(1, 2))


class Head(nn.Module):
    """Log-magnitude and phase per bin, then the inverse STFT."""

    def __init__(self, dim: int, sizes: MelConfig, window: Tensor) -> None:
        super().__init__()
        self.out = nn.Linear(dim, sizes.n_fft + 2)
        self.istft = InverseSTFT(sizes, window)

    def forward(self, x: Tensor) -> Tensor:
        """[B, F, dim] -> wav [B, (F - 1) * hop]."""
        log_magnitude, phase = self.out(x).transpose(1, 2).chunk(2, dim=1)
        magnitude = torch.exp(log_magnitude).clamp(max=LARGEST_MAGNITUDE)
        return self.istft(magnitude * phase.cos(), magnitude * phase.sin())


class Vocos(nn.Module):
    """Backbone and head."""

    def __init__(self, sizes: VocosConfig, window: Tensor) -> None:
        super().__init__()
        self.backbone = Backbone(sizes)
        self.head = Head(sizes.backbone.dim, sizes.feature_extractor, window)

    def forward(self, mel: Tensor) -> Tensor:
        """Log-mel [B, mels, F] -> wav [B, (F - 1) * hop]."""
        return self.head(self.backbone(mel))


def load_vocos(checkpoint: Checkpoint) -> Vocos:
    """The module with the checkpoint's weights."""
    tensors = checkpoint.tensors["vocos"]
    vocos = Vocos(checkpoint.config.vocos, torch.from_numpy(tensors["head.istft.window"]))
    return load_state(vocos, tensors, prefixes=("backbone.", "head.out."))
