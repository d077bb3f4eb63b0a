"""The `gpt` graph: embeddings, Llama layers with an in-place key-value cache, code heads and sampler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW, GptConfig

from ..checkpoint import Array, Checkpoint
from .graph import Graph
from .layers import RMSNorm
from .sampler import sample
from .tensor_scatter import tensor_scatter

MASKED = -30_000.0
"""Added to masked scores: finite in FP16, and exp() of it is exactly zero."""


@dataclass(frozen=True, eq=False)
class Place:
    """Where a call's positions stand: what every layer's attention shares."""

    start: Tensor
    """int32 [B]: the first position written."""
    cos: Tensor
    sin: Tensor
    """float32 [B, 1, S, D]."""
    mask: Tensor
    """float32 [B, 1, S, N]."""
    limit: int | None
    """N where the caches hold more than the attended positions."""


class Attention(nn.Module):
    """Multi-head attention over the cache; q, k and v come from one fused projection."""

    def __init__(self, sizes: GptConfig) -> None:
        super().__init__()
        self.heads, self.width = sizes.num_attention_heads, sizes.head_dim
        self.qkv_proj = nn.Linear(sizes.hidden_size, 3 * sizes.hidden_size, bias=False)
        self.o_proj = nn.Linear(sizes.hidden_size, sizes.hidden_size, bias=False)

    def forward(self, x: Tensor, place: Place, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x [B, S, E] and caches [B, H, C, D] -> output [B, S, E] and the written caches."""
        batch, steps, wide = x.shape
        qkv = self.qkv_proj(x).view(batch, steps, 3 * self.heads, self.width).transpose(1, 2)
        rotated, value = torch.split(qkv, [2 * self.heads, self.heads], dim=1)
        query, key = rotate(rotated, place.cos, place.sin).chunk(2, dim=1)
        k, v = tensor_scatter(k, key, place.start), tensor_scatter(v, value, place.start)
        keys, values = (k, v) if place.limit is None else (k[:, :, : place.limit], v[:, :, : place.limit])
        scores = (query * self.width**-0.5) @ keys.transpose(2, 3) + place.mask
        context = scores.softmax(3) @ values
        return self.o_proj(context.transpose(1, 2).reshape(batch, steps, wide)), k, v


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding (half-split form) of [B, H, S, D] by cos and sin [B, 1, S, D]."""
    first, second = x.chunk(2, dim=3)
    return x * cos + torch.cat([-second, first], dim=3) * sin


class MLP(nn.Module):
    """SwiGLU with a fused gate and up projection."""

    def __init__(self, sizes: GptConfig) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(sizes.hidden_size, 2 * sizes.intermediate_size, bias=False)
        self.down_proj = nn.Linear(sizes.intermediate_size, sizes.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, S, E] -> [B, S, E]."""
        gate, up = self.gate_up_proj(x).chunk(2, dim=2)
        return self.down_proj(F.silu(gate) * up)


class Layer(nn.Module):
    """One transformer layer."""

    def __init__(self, sizes: GptConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.self_attn = Attention(sizes)
        self.post_attention_layernorm = RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.mlp = MLP(sizes)

    def forward(self, x: Tensor, place: Place, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """As `Attention.forward`."""
        attended, k, v = self.self_attn(self.input_layernorm(x), place, k, v)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), k, v


class Gpt(nn.Module):
    """Prefill and decode in one graph.

    With `exact_cache` the attention reads the whole bound cache, so the runtime binds caches of exactly N positions
    (the CPU form: ONNX Runtime's Slice would copy). Without it, the caches have a fixed capacity and the attention
    reads their first N = len(span) positions (the TensorRT form).
    """

    rope_frequency: Tensor

    def __init__(self, sizes: GptConfig, exact_cache: bool) -> None:
        super().__init__()
        self.sizes, self.exact_cache = sizes, exact_cache
        self.emb_code = nn.ModuleList(
            nn.Embedding(sizes.num_audio_tokens, sizes.hidden_size) for _ in range(sizes.num_vq)
        )
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.num_hidden_layers))
        self.norm = RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.head_code = nn.Linear(sizes.hidden_size, sizes.num_vq * sizes.num_audio_tokens, bias=False)
        frequency = sizes.rope_theta ** (-torch.arange(0, sizes.head_dim, 2).float() / sizes.head_dim)
        self.register_buffer("rope_frequency", torch.cat([frequency, frequency]), persistent=False)

    def forward(
        self,
        codes_in: Tensor,
        rows: Tensor,
        is_code: Tensor,
        start: Tensor,
        span: Tensor,
        last: Tensor,
        recent: Tensor,
        noise: Tensor,
        sampling: Tensor,
        allow_end: Tensor,
        caches: list[Tensor],
    ) -> tuple[Tensor, ...]:
        """Inputs and outputs as in the engine set's manifest; `caches` is k_0, v_0, k_1, v_1, ..."""
        x = torch.where(is_code[..., None], self.embed_codes(codes_in), rows)
        place = self._place(start, span, codes_in.shape[1])
        written: list[Tensor] = []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, place, caches[2 * i], caches[2 * i + 1])
            written += [k, v]
        row = last.long()[:, None, None].expand(-1, 1, self.sizes.hidden_size)
        hidden = self.norm(x.gather(1, row).squeeze(1))
        logits = self.head_code(hidden).view(-1, self.sizes.num_vq, self.sizes.num_audio_tokens)
        codes, recent_out = sample(logits, recent, noise, sampling, allow_end, self.sizes.end_code)
        return codes, hidden, recent_out, *written

    def _place(self, start: Tensor, span: Tensor, steps: int) -> Place:
        position = start[:, None] + span[:steps]
        angle = (position.float()[..., None] * self.rope_frequency)[:, None]
        mask = torch.where(span <= position[:, None, :, None], 0.0, MASKED)
        return Place(start, angle.cos(), angle.sin(), mask, None if self.exact_cache else span.shape[0])

    def embed_codes(self, codes: Tensor) -> Tensor:
        """Sum of the four code embeddings: [B, S, 4] -> [B, S, E]. The -1 of a failed row reads entry 0."""
        safe = codes.clamp(min=0)
        return torch.stack([table(safe[..., i]) for i, table in enumerate(self.emb_code)]).sum(0)


def load_gpt(checkpoint: Checkpoint, exact_cache: bool) -> Gpt:
    """The module with the checkpoint's weights, projections fused."""
    weights, embed = checkpoint.tensors["gpt"], checkpoint.tensors["embed"]
    sizes = checkpoint.config.gpt
    state: dict[str, Array | list[Array]] = {"norm.weight": weights["norm.weight"]}
    for i in range(sizes.num_hidden_layers):
        layer = f"layers.{i}."
        for name in ("input_layernorm", "post_attention_layernorm", "self_attn.o_proj", "mlp.down_proj"):
            state[f"{layer}{name}.weight"] = weights[f"{layer}{name}.weight"]
        state[f"{layer}self_attn.qkv_proj.weight"] = [weights[f"{layer}self_attn.{n}_proj.weight"] for n in "qkv"]
        state[f"{layer}mlp.gate_up_proj.weight"] = [weights[f"{layer}mlp.{n}_proj.weight"] for n in ("gate", "up")]
    for i in range(sizes.num_vq):
        state[f"emb_code.{i}.weight"] = embed[f"emb_code.{i}.weight"]
    state["head_code.weight"] = [embed[f"head_code.{i}.weight"] for i in range(sizes.num_vq)]
    model = Gpt(sizes, exact_cache)
    model.load_state_dict({name: _joined(value) for name, value in state.items()}, assign=True)
    return model.eval()


def _joined(value: Array | list[Array]) -> Tensor:
    return torch.from_numpy(np.concatenate(value) if isinstance(value, list) else value)


def gpt_graph(checkpoint: Checkpoint, exact_cache: bool = True) -> Graph:
    """The `gpt` graph; `exact_cache` as in `Gpt`."""
    sizes = checkpoint.config.gpt
    cache_names = [f"{kind}_{i}" for i in range(sizes.num_hidden_layers) for kind in "kv"]
    row = {0: "B"}
    dynamic = dict.fromkeys(("start", "last", "recent", "noise", "sampling", "allow_end"), row)
    dynamic |= {name: {0: "B", 1: "S"} for name in ("codes_in", "rows", "is_code")} | {"span": {0: "N"}}
    dynamic |= {name: {0: "B", 2: "N" if exact_cache else "C"} for name in cache_names}
    # (batch, chunk, N): a prefill of ragged rows, a decode step, and a solo one-position prompt.
    shapes = ((2, 5, 24), (3, 1, 40), (1, 1, 8), (1, 16, 16))
    return Graph(
        name="gpt",
        module=load_gpt(checkpoint, exact_cache),
        outputs=("codes", "hidden", "recent_out", *(f"{name}_out" for name in cache_names)),
        dynamic=dynamic,
        samples=tuple(_sample(sizes, cache_names, shape, exact_cache) for shape in shapes),
        caches=len(cache_names),
    )


def _sample(sizes: GptConfig, cache_names: list[str], shape: tuple[int, int, int], exact: bool) -> dict[str, Tensor]:
    (batch, chunk, span), codes = shape, sizes.num_audio_tokens
    random = torch.Generator().manual_seed(sum(shape))
    quarter = (batch, sizes.num_vq)
    start = torch.randint(0, span - chunk + 1, (batch,), generator=random, dtype=torch.int32)
    is_code = torch.rand(batch, chunk, generator=random) < 0.5
    values = {
        "codes_in": torch.randint(0, codes, (batch, chunk, sizes.num_vq), generator=random).int(),
        "rows": torch.randn(batch, chunk, sizes.hidden_size, generator=random) * 0.1,
        "is_code": is_code,
        "start": start,
        "span": torch.arange(span, dtype=torch.int32),
        "last": torch.randint(0, chunk, (batch,), generator=random, dtype=torch.int32),
        "recent": torch.randint(-1, codes, (batch, PENALTY_WINDOW, sizes.num_vq), generator=random).int(),
        "noise": torch.randn(*quarter, MAX_CANDIDATES, generator=random),
        "sampling": torch.tensor([[0.3, 0.7, 20.0, 1.05]]).repeat(batch, 1),
        "allow_end": torch.arange(batch) % 2 == 0,
    }
    capacity = span if exact else span + 8
    for name in cache_names:
        shape_ = (batch, sizes.num_attention_heads, capacity, sizes.head_dim)
        values[name] = torch.randn(shape_, generator=random) * 0.1
    return values
