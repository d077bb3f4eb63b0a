"""Sizes of a ChatTTS-shaped model: the published ones by default, overridden by a checkpoint's `config.json`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Self, get_type_hints

from trt_tts.errors import CheckpointError

SAMPLE_RATE = 24_000
HOP_LENGTH = 256
CODE_HOP = 2 * HOP_LENGTH
"""Samples per generation step: each step makes two mel frames."""
STEPS_PER_SECOND = SAMPLE_RATE / CODE_HOP
PENALTY_WINDOW = 16
"""How many of the last codes the repetition penalty counts."""
MAX_CANDIDATES = 50
"""K of the sampler's top-K: `top_k` above it is clamped."""
MIN_CANDIDATES = 3
"""Top-P and top-K each keep at least this many."""


class _Section:
    """Builds a frozen dataclass from the JSON object of the same shape; unknown keys are ignored."""

    @classmethod
    def from_json(cls, data: Any, where: str) -> Self:
        """Take known keys from `data`, keep defaults for the rest.

        Raises:
            CheckpointError: a value has the wrong type or is not positive; names `where`.
        """
        if not isinstance(data, dict):
            raise CheckpointError(f"{where}: expected a JSON object, found {type(data).__name__}")
        types, values = get_type_hints(cls), {}
        for item in fields(cls):  # type: ignore[arg-type]
            if item.name not in data:
                continue
            value, kind, place = data[item.name], types[item.name], f"{where}.{item.name}"
            if isinstance(kind, type) and issubclass(kind, _Section):
                values[item.name] = kind.from_json(value, place)
            else:
                values[item.name] = _scalar(value, kind, place)
        return cls(**values)


def _scalar(value: Any, kind: Any, place: str) -> Any:
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf"):
        return float(value)
    if kind is str and isinstance(value, str):
        return value
    if kind == tuple[int, ...] and isinstance(value, list | tuple) and all(type(v) is int and v > 1 for v in value):
        return tuple(value)
    wanted = {int: "a positive whole number", float: "a positive number", str: "a string"}.get(kind, "a list of levels")
    raise CheckpointError(f"{place}: expected {wanted}, found {value!r}")


@dataclass(frozen=True)
class GptConfig(_Section):
    """The Llama-shaped transformer and its embeddings."""

    hidden_size: int = 768
    intermediate_size: int = 3072
    num_attention_heads: int = 12
    num_hidden_layers: int = 20
    max_position_embeddings: int = 4096
    num_audio_tokens: int = 626
    num_text_tokens: int = 21178
    num_vq: int = 4
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0

    def __post_init__(self) -> None:
        if self.hidden_size % (2 * self.num_attention_heads):
            raise CheckpointError(
                f"gpt: hidden_size {self.hidden_size} must be a multiple of 2 x num_attention_heads "
                f"({self.num_attention_heads})"
            )

    @property
    def head_dim(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @property
    def end_code(self) -> int:
        """The code that ends a row, in any codebook."""
        return self.num_audio_tokens - 1

    @property
    def kv_bytes_per_position(self) -> int:
        """Bytes of FP32 key-value cache per position and sequence."""
        return 2 * self.num_hidden_layers * self.hidden_size * 4


@dataclass(frozen=True)
class ConvStackConfig(_Section):
    """A stack of dilated ConvNeXt blocks: idim -> bn_dim -> hidden -> odim channels."""

    idim: int = 384
    odim: int = 384
    hidden: int = 512
    n_layer: int = 12
    bn_dim: int = 128


@dataclass(frozen=True)
class QuantizerConfig(_Section):
    """Grouped residual finite scalar quantizer: G groups of R residual levels.

    `fsq` names the numerics of the vector-quantize-pytorch release the checkpoint was trained with:
    "early" (1.14.24) or "late" (1.32.0).
    """

    dim: int = 1024
    levels: tuple[int, ...] = (5, 5, 5, 5)
    G: int = 2
    R: int = 2
    fsq: str = "early"

    def __post_init__(self) -> None:
        if self.fsq not in ("early", "late"):
            raise CheckpointError(f'dvae.vq.fsq is {self.fsq!r}; allowed: "early", "late"')


@dataclass(frozen=True)
class DvaeConfig(_Section):
    """The discrete autoencoder between mel frames and the four codes."""

    encoder: ConvStackConfig = field(default_factory=lambda: ConvStackConfig(512, 1024, 256, 12, 128))
    decoder: ConvStackConfig = field(default_factory=lambda: ConvStackConfig(512, 512, 256, 12, 128))
    vq: QuantizerConfig = field(default_factory=QuantizerConfig)


@dataclass(frozen=True)
class MelConfig(_Section):
    """Mel spectrogram and ISTFT sizes."""

    sample_rate: int = SAMPLE_RATE
    n_fft: int = 1024
    hop_length: int = HOP_LENGTH
    n_mels: int = 100

    def __post_init__(self) -> None:
        if (self.sample_rate, self.hop_length) != (SAMPLE_RATE, HOP_LENGTH):
            raise CheckpointError(
                f"vocos: sample_rate {self.sample_rate} and hop_length {self.hop_length} are not supported; "
                f"ChatTTS uses {SAMPLE_RATE} and {HOP_LENGTH}"
            )


@dataclass(frozen=True)
class BackboneConfig(_Section):
    """Vocos ConvNeXt backbone."""

    dim: int = 512
    intermediate_dim: int = 1536
    num_layers: int = 8


@dataclass(frozen=True)
class VocosConfig(_Section):
    """The vocoder."""

    feature_extractor: MelConfig = field(default_factory=MelConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)


@dataclass(frozen=True)
class ModelConfig(_Section):
    """All sizes of a checkpoint. The defaults are the published ChatTTS sizes."""

    gpt: GptConfig = field(default_factory=GptConfig)
    decoder: ConvStackConfig = field(default_factory=ConvStackConfig)
    dvae: DvaeConfig = field(default_factory=DvaeConfig)
    vocos: VocosConfig = field(default_factory=VocosConfig)

    def __post_init__(self) -> None:
        if 2 * self.decoder.idim != self.gpt.hidden_size:
            raise CheckpointError(
                f"decoder.idim {self.decoder.idim} must be half of gpt.hidden_size {self.gpt.hidden_size}"
            )
        vq = self.dvae.vq
        if self.gpt.num_vq != vq.G * vq.R:
            raise CheckpointError(f"dvae.vq: G x R = {vq.G * vq.R} must equal gpt.num_vq = {self.gpt.num_vq}")
        codes = 1
        for level in vq.levels:
            codes *= level
        if codes + 1 != self.gpt.num_audio_tokens:
            raise CheckpointError(
                f"dvae.vq.levels {vq.levels} give {codes} codes; gpt.num_audio_tokens "
                f"{self.gpt.num_audio_tokens} must be one more"
            )
        if vq.dim != self.dvae.encoder.odim or vq.dim != 2 * self.dvae.decoder.idim or vq.dim % vq.G:
            raise CheckpointError(
                f"dvae.vq.dim {vq.dim} must equal dvae.encoder.odim {self.dvae.encoder.odim} and twice "
                f"dvae.decoder.idim {self.dvae.decoder.idim}, and be a multiple of G {vq.G}"
            )
