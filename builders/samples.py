"""A few sentences spoken by the FP32 graphs: real inputs for the range guard and for the self-test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trt_tts.cpu.gpt import F32, I32, GptRunner
from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.errors import CapacityError, ExportError, TextError
from trt_tts.frontend import Frontend
from trt_tts.generation import Request, generate
from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW
from trt_tts.options import SynthesisOptions

from .checkpoint import Checkpoint
from .ranges import Feed

TEXTS = (
    "the engine is ready",
    "good morning",
    "it is raining in the city this evening",
    "please open the window and close the door",
    "the weather is fine today",
    "we will meet at the station after lunch",
    "thank you for your help",
    "the small card has enough memory for this voice",
    "can you hear the music from the garden",
    "my brother lives near the old bridge",
    "the train leaves in ten minutes",
    "she reads a book every night before she sleeps",
    "四是四，十是十，十四是十四，四十是四十。",
    "今天天气很好，我们去公园散步吧。",
    "请问，去火车站怎么走？",
)
FEW_TEXTS = 4
STEPS = 96
CHUNK = 128
_GREEDY = (0.3, 0.7, 20.0, 1.05)


@dataclass(frozen=True, eq=False)
class Spoken:
    """One sentence."""

    embedded: F32
    """Prompt rows, float32 [S, E]."""
    codes: I32
    """int32 [T, 4]."""
    hidden: F32
    """float32 [T, E]."""


def speak_samples(checkpoint: Checkpoint, tables: Path, gpt: Path, most: int = FEW_TEXTS) -> list[Spoken]:
    """Speak up to `most` of `TEXTS`, `STEPS` steps at most. Arguments as `speak`.

    Raises:
        ExportError: no sentence could be spoken, or the numbers are not finite.
    """
    spoken, _ = speak(checkpoint, tables, gpt, TEXTS, STEPS, seed=0, most=most, rows=most)
    if not spoken:
        raise ExportError("this voice can speak none of the sample sentences, so its number ranges are unknown")
    return spoken


def speak(
    checkpoint: Checkpoint,
    tables: Path,
    gpt: Path,
    texts: Sequence[str],
    steps: int,
    seed: int,
    most: int,
    rows: int,
) -> tuple[list[Spoken], int]:
    """Speak texts in FP32, `rows` at a time.

    Args:
        checkpoint: whose config to use.
        tables: folder with tokenizer, voices and text embedding.
        gpt: the FP32 `gpt` graph, of either form.
        texts: what to say; what the voice cannot speak is left out.
        steps: the most for each.
        seed: of the first text, the next ones follow.
        most: texts to speak at most.
        rows: texts to speak at a time.

    Returns:
        What was spoken, and how many texts could not be.

    Raises:
        ExportError: the numbers are not finite.
    """
    sizes = checkpoint.config.gpt
    capacity = min(1024, sizes.max_position_embeddings)
    frontend = Frontend(tables, sizes, capacity, checkpoint.prompt, checkpoint.alphabet)
    requests, refused = _requests(frontend, texts, steps, seed, most)
    if not requests:
        return [], refused
    runner = GptRunner(open_session(gpt, usable_threads()), sizes, rows, capacity, CHUNK)
    results = dict(generate(runner, requests, rows))
    if any(item.failed or not len(item.codes) for item in results.values()):
        raise ExportError("the checkpoint's own numbers are not finite in FP32. Check its files")
    return [Spoken(item.embedded, results[i].codes, results[i].hidden) for i, item in enumerate(requests)], refused


def _requests(frontend: Frontend, texts: Sequence[str], steps: int, seed: int, most: int) -> tuple[list[Request], int]:
    options = SynthesisOptions(voice=frontend.any_voice(), max_steps=steps, min_steps=min(8, steps))
    requests: list[Request] = []
    refused = 0
    for text in texts:
        if len(requests) == most:
            break
        try:
            requests.append(frontend.request(frontend.clean(text, normalize=True), options, seed + len(requests)))
        except (TextError, CapacityError):
            refused += 1
    return requests, refused


def forced_feed(spoken: Spoken, heads: int, layers: int) -> Feed:
    """The whole sequence in one call of the FP32 `gpt` graph: prompt and generated codes."""
    prompt, (steps, books) = len(spoken.embedded), spoken.codes.shape
    total, width = prompt + steps - 1, spoken.embedded.shape[1]
    codes, rows = np.zeros((1, total, books), np.int32), np.zeros((1, total, width), np.float32)
    codes[0, prompt:], rows[0, :prompt] = spoken.codes[:-1], spoken.embedded
    feed = {
        "codes_in": codes,
        "rows": rows,
        "is_code": (np.arange(total) >= prompt)[None],
        "start": np.zeros(1, np.int32),
        "span": np.arange(total, dtype=np.int32),
        "last": np.array([total - 1], np.int32),
        **sampler_feed(1, books),
    }
    cache = np.zeros((1, heads, total, width // heads), np.float32)
    return feed | {f"{kind}_{i}": cache for i in range(layers) for kind in "kv"}


def sampler_feed(rows: int, books: int) -> Feed:
    """The sampler's inputs for greedy drawing, without a history."""
    return {
        "recent": np.full((rows, PENALTY_WINDOW, books), -1, np.int32),
        "noise": np.zeros((rows, books, MAX_CANDIDATES), np.float32),
        "sampling": np.tile(np.array(_GREEDY, np.float32), (rows, 1)),
        "allow_end": np.ones(rows, np.bool_),
    }


def feeds_of(graph: str, checkpoint: Checkpoint, spoken: list[Spoken], wavs: list[F32]) -> list[Feed]:
    """Inputs of an FP32 graph that stand for real use, one per sentence. `wavs` are float32 [1, samples]."""
    gpt = checkpoint.config.gpt
    if graph == "gpt":
        return [forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers) for item in spoken]
    if graph == "codec":
        return [{"hidden": item.hidden[None]} for item in spoken]
    if graph == "codec_vq":
        return [{"codes": np.ascontiguousarray(item.codes.T[None])} for item in spoken]
    if graph == "text_head":
        return [{"hidden": item.hidden[-2:], **sampler_feed(2, 1)} for item in spoken]
    return [{"wav": wav} for wav in wavs]
