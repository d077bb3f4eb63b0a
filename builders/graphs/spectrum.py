"""Short-time Fourier transforms as real products: no runtime here has the complex operators."""

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
    """Centre-padded inverse STFT: one convolution, which sums the overlapping frames, over the window envelope."""

    basis: Tensor
    window_square: Tensor

    def __init__(self, sizes: MelConfig, window: Tensor) -> None:
        super().__init__()
        self.size, self.hop = sizes.n_fft, sizes.hop_length
        cos, sin = dft_basis(self.size)
        # A real signal's bins 1 .. size/2 - 1 stand for two conjugate ones.
        weight = torch.full((self.size // 2 + 1, 1), 2.0 / self.size, dtype=torch.float64)
        weight[0] = weight[-1] = 1.0 / self.size
        basis = torch.cat([weight * cos, -weight * sin]) * window.double()
        self.register_buffer("basis", _blocks(basis, self.hop).transpose(0, 1).flip(2).contiguous())
        self.register_buffer("window_square", _blocks(window.square()[None], self.hop).transpose(0, 1).flip(2))

    def forward(self, real: Tensor, imaginary: Tensor) -> Tensor:
        """Two [B, size/2 + 1, F] -> wav [B, (F - 1) * hop]."""
        wave = self._overlap_add(torch.cat([real, imaginary], dim=1), self.basis)
        return wave / self._overlap_add(torch.ones_like(real[:1, :1]), self.window_square)

    def _overlap_add(self, frames: Tensor, basis: Tensor) -> Tensor:
        """[B, bins, F] by [hop, bins, size / hop] -> [B, (F - 1) * hop], half a frame cut at each end."""
        blocks = F.conv1d(frames, basis, padding=basis.shape[2] - 1)
        return blocks.transpose(1, 2).reshape(frames.shape[0], -1)[:, self.size // 2 : -self.size // 2]


class LogMel(nn.Module):
    """Log-mel spectrogram of a waveform, centre-padded by reflection."""

    basis: Tensor
    filterbank: Tensor

    def __init__(self, sizes: MelConfig, window: Tensor, filterbank: Tensor) -> None:
        super().__init__()
        self.size, self.hop = sizes.n_fft, sizes.hop_length
        cos, sin = dft_basis(self.size)
        self.register_buffer("basis", _blocks(torch.cat([cos, sin]) * window.double(), self.hop))
        self.register_buffer("filterbank", filterbank.t()[None])

    def forward(self, wav: Tensor) -> Tensor:
        """[B, samples] -> [B, mels, samples // hop + 1]."""
        count = wav.shape[1] // self.hop + 1
        padded = F.pad(wav[:, None], (self.size // 2, self.size // 2), mode="reflect")
        padded = padded[..., : (count - 1) * self.hop + self.size]
        blocks = padded.reshape(wav.shape[0], -1, self.hop).transpose(1, 2)
        real, imaginary = F.conv1d(blocks, self.basis).chunk(2, dim=1)
        magnitude = torch.sqrt(real.square() + imaginary.square())
        return torch.log(torch.clamp(self.filterbank @ magnitude, min=1e-5))


def _blocks(basis: Tensor, hop: int) -> Tensor:
    """[bins, size] -> float32 [bins, hop, size / hop]: a frame is read as `size / hop` blocks of `hop` samples."""
    return basis.float().view(basis.shape[0], -1, hop).transpose(1, 2).contiguous()
