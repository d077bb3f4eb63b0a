"""Short-time Fourier transforms as convolutions: no runtime here has the complex operators."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trt_tts.model_config import MelConfig


def dft_basis(size: int) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi k n / size, each float64 [size // 2 + 1, size]."""
    # k * n is reduced modulo size first: large angles would lose digits.
    angle = torch.outer(torch.arange(size // 2 + 1), torch.arange(size)) % size * (2 * math.pi / size)
    return angle.double().cos(), angle.double().sin()


class InverseSTFT(nn.Module):
    """Centre-padded inverse STFT: two transposed convolutions divided by the window envelope."""

    real_basis: Tensor
    imaginary_basis: Tensor
    window_square: Tensor

    def __init__(self, sizes: MelConfig, window: Tensor) -> None:
        super().__init__()
        self.size, self.hop = sizes.n_fft, sizes.hop_length
        cos, sin = dft_basis(self.size)
        # A real signal's bins 1 .. size/2 - 1 stand for two conjugate ones.
        weight = torch.full((self.size // 2 + 1, 1), 2.0 / self.size, dtype=torch.float64)
        weight[0] = weight[-1] = 1.0 / self.size
        self.register_buffer("real_basis", (weight * cos * window.double()).float()[:, None])
        self.register_buffer("imaginary_basis", (-weight * sin * window.double()).float()[:, None])
        self.register_buffer("window_square", window.square()[None, None])

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Two [B, size/2 + 1, F] -> wav [B, (F - 1) * hop]."""
        wave = F.conv_transpose1d(real, self.real_basis, stride=self.hop)
        wave = wave + F.conv_transpose1d(imaginary, self.imaginary_basis, stride=self.hop)
        envelope = F.conv_transpose1d(torch.ones_like(real[:1, :1]), self.window_square, stride=self.hop)
        half = self.size // 2
        return (wave[..., half:-half] / envelope[..., half:-half]).squeeze(1)


class LogMel(nn.Module):
    """Log-mel spectrogram of a waveform, centre-padded by reflection."""

    basis: Tensor
    filterbank: Tensor

    def __init__(self, sizes: MelConfig, window: Tensor, filterbank: Tensor) -> None:
        super().__init__()
        self.size, self.hop = sizes.n_fft, sizes.hop_length
        cos, sin = dft_basis(self.size)
        self.register_buffer("basis", (torch.cat([cos, sin]) * window.double()).float()[:, None])
        self.register_buffer("filterbank", filterbank.t()[None])

    def forward(self, wav: Tensor) -> Tensor:
        """[B, samples] -> [B, mels, samples // hop + 1]."""
        padded = F.pad(wav[:, None], (self.size // 2, self.size // 2), mode="reflect")
        real, imaginary = F.conv1d(padded, self.basis, stride=self.hop).chunk(2, dim=1)
        magnitude = torch.sqrt(real.square() + imaginary.square())
        return torch.log(torch.clamp(self.filterbank @ magnitude, min=1e-5))
