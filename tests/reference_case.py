"""Reference vectors of the published implementation, as requests of ours."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.cpu.gpt import GptRunner
from trt_tts.cpu.session import open_session
from trt_tts.generation import Prompt, Request, Sampling
from trt_tts.manifest import TEXT_EMBEDDING, TOKENIZER, Manifest
from trt_tts.text.tokenizer import load_tokenizer
from trt_tts.voice import Voice

REFERENCE = Path(__file__).parent / "reference"
STEPS = 48


@dataclass(frozen=True)
class Reference:
    """One checkpoint's vectors beside an engine set built from it."""

    folder: Path
    vectors: dict[str, Any]
    cases: dict[str, Any]

    @classmethod
    def of(cls, name: str, folder: Path) -> "Reference":
        with np.load(REFERENCE / name / "vectors.npz") as stored:
            vectors = dict(stored)
        return cls(folder, vectors, json.loads((REFERENCE / name / "cases.json").read_text("utf-8")))

    def runner(self, rows: int = 1, chunk: int = 512, capacity: int = 256) -> GptRunner:
        sizes = Manifest.load(self.folder).config.gpt
        return GptRunner(open_session(self.folder / "gpt.onnx", 2), sizes, rows, capacity, chunk)

    def embedded(self, prompt: str) -> np.ndarray:
        """Prompt rows, the speaker slot replaced by the reference voice."""
        tokenizer = load_tokenizer(self.folder / TOKENIZER)
        ids = np.array(tokenizer.encode(prompt))
        rows = np.load(self.folder / TEXT_EMBEDDING)[ids].astype(np.float32)
        rows[ids == tokenizer.special("[spk_emb]")] = Voice.from_vector(self.vectors["speaker_vector_f16"]).normalised()
        return rows

    def request(
        self, prompt: str, penalty: float = 1.05, steps: int = STEPS, codes: np.ndarray | None = None
    ) -> Request:
        """Argmax decoding with the end banned, after an optional voice prompt of codes [T, 4]."""
        rows = self.embedded(prompt)
        tail = np.zeros((0, 4), np.int32) if codes is None else codes.astype(np.int32)
        return Request(
            prompt=lambda: Prompt.of(rows, tail),
            sampling=Sampling(0.0, 0.7, 20, penalty),
            seed=0,
            segment=0,
            max_steps=steps,
            min_steps=steps + 1,
        )


def snr(expected: np.ndarray, found: np.ndarray) -> float:
    """Signal-to-noise ratio in dB."""
    noise = np.square(expected.astype(np.float64) - found).sum()
    return float(10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(noise, 1e-30)))
