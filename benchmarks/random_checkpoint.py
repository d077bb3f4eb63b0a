"""Writes a checkpoint of the published ChatTTS sizes with random weights: same cost to run, nothing to download.

It makes noise, not speech: what is measured on it is speed and memory only.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from trt_tts.builders.checkpoint import GPT_CONFIG, TENSOR_FILES, TOKENIZER, expected_shapes
from trt_tts.demo import demo_checkpoint
from trt_tts.model_config import ModelConfig
from trt_tts.text.prompt import CONTROL_TAGS, PROMPT_TOKENS


def write_random_checkpoint(folder: Path, seed: int = 0) -> Path:
    """Write float16 tensors of every expected name and shape, a character tokenizer and one voice; returns `folder`."""
    config, random = ModelConfig(), np.random.default_rng(seed)
    for part, shapes in expected_shapes(config).items():
        file = folder / TENSOR_FILES[part]
        file.parent.mkdir(parents=True, exist_ok=True)
        save_file({name: _tensor(name, shape, random) for name, shape in shapes.items()}, file)
    (folder / GPT_CONFIG).write_text(json.dumps({"rms_norm_eps": config.gpt.rms_norm_eps}))
    _write_tokenizer(folder / TOKENIZER, config.gpt.num_text_tokens)
    vector = random.standard_normal(config.gpt.hidden_size).round(3).tolist()
    (folder / "speakers.json").write_text(json.dumps({"random": {"vector": vector}}))
    (folder / "config.json").write_text(json.dumps({"voices": "speakers.json"}))
    return folder


def _tensor(name: str, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if name.endswith(("norm.weight", "window", "coef", "original0")):
        return np.ones(shape, np.float16)
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else 1000
    return (random.standard_normal(shape, dtype=np.float32) * fan_in**-0.5).astype(np.float16)


def _write_tokenizer(file: Path, size: int) -> None:
    source = json.loads((demo_checkpoint() / TOKENIZER).read_text("utf-8"))["model"]["vocab"]
    specials = [*PROMPT_TOKENS, *CONTROL_TAGS]
    words = [word for word in source if word not in specials]
    words += [f"[unused{i}]" for i in range(size - len(words) - len(specials))]
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(specials)
    file.parent.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(file))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    print(write_random_checkpoint(parser.parse_args().folder))
