"""Building blocks shared by the graphs. Parameter names follow the checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trt_tts.model_config import ConvStackConfig


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis, written out so that every runtime can fuse it."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """[..., width] -> [..., width]."""
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution, norm and two pointwise layers around a residual connection (ConvNeXt, one-dimensional).

    `scale` is the layer scale's name in the checkpoint: "weight" in the DVAE, "gamma" in Vocos.
    """

    def __init__(self, width: int, inner: int, dilation: int, scale: str) -> None:
        super().__init__()
        self.dwconv = nn.Conv1d(width, width, 7, padding=3 * dilation, dilation=dilation, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.pwconv1 = nn.Linear(width, inner)
        self.pwconv2 = nn.Linear(inner, width)
        self.scale = scale
        self.register_parameter(scale, nn.Parameter(torch.empty(width)))

    def forward(self, x: Tensor) -> Tensor:
        """[B, width, T] -> [B, width, T]."""
        y = self.norm(self.dwconv(x).transpose(1, 2))
        y = self.pwconv2(F.gelu(self.pwconv1(y))) * self.get_parameter(self.scale)
        return x + y.transpose(1, 2)


class ConvStack(nn.Module):
    """Two input convolutions, ConvNeXt blocks of dilation 2, one pointwise output."""

    def __init__(self, sizes: ConvStackConfig) -> None:
        super().__init__()
        self.conv_in = nn.Sequential(
            nn.Conv1d(sizes.idim, sizes.bn_dim, 3, padding=1),
            nn.GELU(),
            nn.Conv1d(sizes.bn_dim, sizes.hidden, 3, padding=1),
        )
        self.decoder_block = nn.ModuleList(
            ConvNeXtBlock(sizes.hidden, 4 * sizes.hidden, 2, "weight") for _ in range(sizes.n_layer)
        )
        self.conv_out = nn.Conv1d(sizes.hidden, sizes.odim, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, idim, T] -> [B, odim, T]."""
        x = self.conv_in(x)
        for block in self.decoder_block:
            x = block(x)
        return self.conv_out(x)


class MelDecoder(nn.Module):
    """Latent frames to log-mel: the "Decoder" of hidden states and the decoding half of the DVAE."""

    coef: Tensor

    def __init__(self, sizes: ConvStackConfig, mels: int) -> None:
        super().__init__()
        self.decoder = ConvStack(sizes)
        self.out_conv = nn.Conv1d(sizes.odim, mels, 3, padding=1, bias=False)
        self.register_buffer("coef", torch.empty(1, mels, 1))

    def forward(self, latent: Tensor) -> Tensor:
        """[B, T, 2 * idim] -> log-mel [B, mels, 2T]; the two halves of a step become two frames."""
        batch, steps, width = latent.shape
        frames = latent.reshape(batch, 2 * steps, width // 2).transpose(1, 2)
        return self.out_conv(self.decoder(frames)) * self.coef
