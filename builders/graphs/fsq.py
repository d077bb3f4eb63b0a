"""Grouped residual finite scalar quantization (Mentzer et al., 2023), in the two numerics checkpoints exist with.

vector-quantize-pytorch changed the residual form between releases while the tensor names stayed the same; a checkpoint
names the one it was trained with as `dvae.vq.fsq`.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from trt_tts.model_config import QuantizerConfig


class Group(nn.Module):
    """One group: project to a few dimensions, then R residual quantizers."""

    levels: Tensor
    middle: Tensor
    basis: Tensor
    scales: Tensor

    def __init__(self, sizes: QuantizerConfig) -> None:
        super().__init__()
        width, dims = sizes.dim // sizes.G, len(sizes.levels)
        self.project_in = nn.Linear(width, dims)
        self.project_out = nn.Linear(dims, width)
        self.early = sizes.fsq == "early"
        levels = torch.tensor(sizes.levels, dtype=torch.float32)
        base = levels - 1 if self.early else levels
        self.register_buffer("levels", levels, persistent=False)
        self.register_buffer("middle", (levels / 2).floor(), persistent=False)
        self.register_buffer("basis", torch.cat([torch.ones(1), levels[:-1].cumprod(0)]), persistent=False)
        self.register_buffer("scales", torch.stack([base**-r for r in range(sizes.R)]), persistent=False)

    def encode(self, latent: Tensor) -> Tensor:
        """[B, T, width] -> indices int32 [B, T, R]."""
        residual = self._limit(self.project_in(latent))
        indices = []
        for scale in self.scales.unbind(0):
            digit = self._digit(residual / scale)
            residual = residual - self._value(digit) * scale
            indices.append((digit * self.basis).sum(-1).round().to(torch.int32))
        return torch.stack(indices, dim=-1)

    def decode(self, indices: Tensor) -> Tensor:
        """Indices int32 [B, T, R] -> [B, T, width]."""
        digits = torch.remainder((indices[..., None].float() / self.basis).floor(), self.levels)
        return self.project_out((self._value(digits) * self.scales).sum(2))

    def _limit(self, x: Tensor) -> Tensor:
        if self.early:
            return self._bound(x)
        edge = 1 + 1 / (self.levels - 1)
        return torch.tanh(x / edge) * edge

    def _bound(self, x: Tensor) -> Tensor:
        reach = (self.levels - 1) * 1.001 / 2
        offset = 0.5 - 0.5 * (self.levels % 2)
        return torch.tanh(x + torch.atanh(offset / reach)) * reach - offset

    def _digit(self, x: Tensor) -> Tensor:
        if self.early:
            return self._bound(x).round() + self.middle
        return ((self.levels - 1) * (x.clamp(-1, 1) + 1) / 2 + 0.5).floor()

    def _value(self, digit: Tensor) -> Tensor:
        return (digit - self.middle) / self.middle if self.early else digit * (2 / (self.levels - 1)) - 1


class GroupedResidualFSQ(nn.Module):
    """G groups over equal parts of the channels."""

    def __init__(self, sizes: QuantizerConfig) -> None:
        super().__init__()
        self.groups, self.depth = sizes.G, sizes.R
        self.rvqs = nn.ModuleList(Group(sizes) for _ in range(sizes.G))

    def encode(self, latent: Tensor) -> Tensor:
        """[B, T, dim] -> codes int32 [B, G * R, T]."""
        parts = zip(self._groups(), latent.chunk(self.groups, dim=2), strict=True)
        return torch.cat([group.encode(part) for group, part in parts], dim=2).transpose(1, 2)

    def decode(self, codes: Tensor) -> Tensor:
        """Codes int32 [B, G * R, T] -> [B, T, dim]."""
        parts = zip(self._groups(), torch.split(codes.transpose(1, 2), self.depth, dim=2), strict=True)
        return torch.cat([group.decode(part) for group, part in parts], dim=2)

    def _groups(self) -> list[Group]:
        return cast(list[Group], list(self.rvqs))
