"""Optimization profiles: the ranges of shapes each graph is built for."""

from __future__ import annotations

from dataclasses import dataclass

from trt_tts.manifest import Limits
from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW, SAMPLE_RATE, ModelConfig
from trt_tts.recording import MOST_SECONDS

Shape = tuple[int, ...]
SPANS = (256, 512, 1024, 2048)
"""Key-value positions attended to: a step runs in the smallest that holds its longest row, or in the capacity."""
PREFILL_BATCH = 2
"""Prompts are short and arrive one by one as rows come free: wider prefill costs activations and saves little time.
Not 1: TensorRT stores the weights again for a profile whose batch is fixed."""
FEWEST_RECORDED = 2048
MOST_RECORDED = round(MOST_SECONDS * SAMPLE_RATE)
"""Samples of a recording that a voice is taken from."""


@dataclass(frozen=True)
class ShapeRange:
    """Smallest, typical and largest shape of one input.

    Raises:
        ValueError: the three are not ordered, or a dimension is below 1.
    """

    least: Shape
    typical: Shape
    most: Shape

    def __post_init__(self) -> None:
        if not len(self.least) == len(self.typical) == len(self.most):
            raise ValueError(f"shapes of different rank: {self}")
        if not all(1 <= a <= b <= c for a, b, c in zip(self.least, self.typical, self.most, strict=True)):
            raise ValueError(f"shapes must be positive and ordered: {self}")


@dataclass(frozen=True)
class Profile:
    """One optimization profile."""

    name: str
    shapes: dict[str, ShapeRange]
    """By input."""


def spans_of(capacity: int) -> tuple[int, ...]:
    """The spans a set of this capacity steps in."""
    return (*(span for span in SPANS if span < capacity), capacity)


def profiles_of(graph: str, config: ModelConfig, limits: Limits) -> tuple[Profile, ...]:
    """The profiles of one graph."""
    return _PROFILES[graph](config, limits)


def _gpt(config: ModelConfig, limits: Limits) -> tuple[Profile, ...]:
    spans = spans_of(limits.capacity)
    chunk = min(limits.prefill_chunk, spans[0])
    few = Axis(1, 1, PREFILL_BATCH)
    prefill = _gpt_profile("prefill", config, limits, few, Axis(1, chunk, chunk), Axis(spans[0], spans[0], spans[-1]))
    rows = _rows(limits)
    return (
        prefill,
        *(_gpt_profile(f"decode-{n}", config, limits, rows, Axis(1, 1, 1), Axis(n, n, n)) for n in spans),
    )


@dataclass(frozen=True)
class Axis:
    """The range of one dimension."""

    least: int
    typical: int
    most: int


def _rows(limits: Limits) -> Axis:
    return Axis(1, limits.max_batch, max(limits.max_batch, 2))


def _gpt_profile(name: str, config: ModelConfig, limits: Limits, rows: Axis, steps: Axis, span: Axis) -> Profile:
    gpt = config.gpt
    shapes = {
        "codes_in": _shape(rows, steps, gpt.num_vq),
        "rows": _shape(rows, steps, gpt.hidden_size),
        "is_code": _shape(rows, steps),
        "start": _shape(rows),
        "span": _shape(span),
        "last": _shape(rows),
        "recent": _shape(rows, PENALTY_WINDOW, gpt.num_vq),
        "noise": _shape(rows, gpt.num_vq, MAX_CANDIDATES),
        "sampling": _shape(rows, 4),
        "allow_end": _shape(rows),
    }
    cache = _shape(rows, gpt.num_attention_heads, limits.capacity, gpt.head_dim)
    return Profile(name, shapes | {f"{kind}_{i}": cache for i in range(gpt.num_hidden_layers) for kind in "kv"})


def _codec(config: ModelConfig, limits: Limits) -> tuple[Profile, ...]:
    return (Profile("window", {"hidden": _shape(1, _window(limits), config.gpt.hidden_size)}),)


def _codec_vq(config: ModelConfig, limits: Limits) -> tuple[Profile, ...]:
    return (Profile("window", {"codes": _shape(1, config.gpt.num_vq, _window(limits))}),)


def _window(limits: Limits) -> Axis:
    return Axis(1, -(-limits.codec_steps // 2), limits.codec_steps)


def _text_head(config: ModelConfig, limits: Limits) -> tuple[Profile, ...]:
    rows = _rows(limits)
    shapes = {
        "hidden": _shape(rows, config.gpt.hidden_size),
        "recent": _shape(rows, PENALTY_WINDOW, 1),
        "noise": _shape(rows, 1, MAX_CANDIDATES),
        "sampling": _shape(rows, 4),
        "allow_end": _shape(rows),
    }
    return (Profile("step", shapes),)


def _voice_encoder(config: ModelConfig, limits: Limits) -> tuple[Profile, ...]:
    return (Profile("recording", {"wav": _shape(1, Axis(FEWEST_RECORDED, MOST_RECORDED // 4, MOST_RECORDED))}),)


def _shape(*axes: int | Axis) -> ShapeRange:
    ranges = [axis if isinstance(axis, Axis) else Axis(axis, axis, axis) for axis in axes]
    return ShapeRange(*(tuple(getattr(axis, end) for axis in ranges) for end in ("least", "typical", "most")))


_PROFILES = {
    "gpt": _gpt,
    "codec": _codec,
    "codec_vq": _codec_vq,
    "text_head": _text_head,
    "voice_encoder": _voice_encoder,
}
