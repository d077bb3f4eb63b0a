"""Sentences spoken by a graph: real inputs for the range guard, the self-test, calibration and the gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from trt_tts.backend import F32, I32
from trt_tts.cpu.gpt import GptRunner
from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.errors import CapacityError, ExportError, TextError
from trt_tts.frontend import Frontend
from trt_tts.generation import Request, generate
from trt_tts.model_config import MAX_CANDIDATES, PENALTY_WINDOW, ModelConfig
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
    "他每天早上七点起床，然后去上班。",
    "这本书我已经看完了，你要不要看？",
    "the price of the ticket went up again this year",
    "did anyone call while i was out",
    "我们明天下午三点开会，别迟到。",
    "外面下雨了，记得带伞。",
    "the old man told us a story about the sea",
    "after the storm the sky was clear and the air was cold",
    "妹妹喜欢画画，也喜欢唱歌。",
)
"""No corpus of `trt_tts.calibration` holds any of these: they judge what was calibrated."""
FEW_TEXTS = 4
STEPS = 96
CHUNK = 128
_GREEDY = (0.3, 0.7, 20.0, 1.05)


class Described(Protocol):
    """What a checkpoint and a set's manifest both tell of a voice."""

    @property
    def config(self) -> ModelConfig:
        """The model's sizes."""

    @property
    def prompt(self) -> str | None:
        """Prompt template, where the voice needs another than the published one."""

    @property
    def alphabet(self) -> str | None:
        """The characters the voice was trained on, where its tokenizer knows more."""


@dataclass(frozen=True, eq=False)
class Spoken:
    """One sentence."""

    text: str
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
    voice: Described,
    tables: Path,
    gpt: Path,
    texts: Sequence[str],
    steps: int,
    seed: int,
    most: int,
    rows: int,
) -> tuple[list[Spoken], int]:
    """Speak texts, `rows` at a time and with the voices in turn.

    Args:
        voice: its sizes and prompt.
        tables: folder with tokenizer, voices and text embedding.
        gpt: a `gpt` graph of either form, with FP32 inputs and outputs.
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
    sizes = voice.config.gpt
    capacity = min(1024, sizes.max_position_embeddings)
    frontend = Frontend(tables, sizes, capacity, voice.prompt, voice.alphabet)
    kept, refused = _requests(frontend, texts, steps, seed, most)
    if not kept:
        return [], refused
    requests = [request for _, request in kept]
    runner = GptRunner(open_session(gpt, usable_threads()), sizes, rows, capacity, CHUNK)
    results = dict(generate(runner, requests, rows))
    if any(item.failed or not len(item.codes) for item in results.values()):
        raise ExportError(f"the numbers of {gpt.stem} are not finite: the checkpoint or its quantization is unusable")
    spoken = [
        Spoken(texts[i], item.prompt().embedded, results[n].codes, results[n].hidden)
        for n, (i, item) in enumerate(kept)
    ]
    return spoken, refused


def _requests(
    frontend: Frontend, texts: Sequence[str], steps: int, seed: int, most: int
) -> tuple[list[tuple[int, Request]], int]:
    """(index of the text, request), and how many texts before the last of these cannot be spoken."""
    kept: list[tuple[int, Request]] = []
    refused = 0
    for i, text in enumerate(texts):
        if len(kept) == most:
            break
        voice = frontend.voice_in_turn(len(kept))
        options = SynthesisOptions(voice=voice, max_steps=steps, min_steps=min(8, steps))
        try:
            kept.append((i, frontend.request(frontend.clean(text, normalize=True).text, options, seed + len(kept))))
        except (TextError, CapacityError):
            refused += 1
    return kept, refused


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


def feeds_of(graph: str, voice: Described, spoken: list[Spoken], wavs: list[F32]) -> list[Feed]:
    """Inputs of an FP32 graph that stand for real use, one per sentence. `wavs` are float32 [1, samples]."""
    gpt = voice.config.gpt
    if graph == "gpt":
        return [forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers) for item in spoken]
    if graph == "codec":
        return [{"hidden": item.hidden[None]} for item in spoken]
    if graph == "codec_vq":
        return [{"codes": np.ascontiguousarray(item.codes.T[None])} for item in spoken]
    if graph == "text_head":
        return [{"hidden": item.hidden[-2:], **sampler_feed(2, 1)} for item in spoken]
    return [{"wav": wav} for wav in wavs]
