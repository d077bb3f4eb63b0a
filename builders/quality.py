"""How far a typed `gpt` graph is from the FP32 one on speech: teacher-forced, so that one odd code does not decide."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.selftest import snr_db

from .checkpoint import Checkpoint
from .samples import Spoken, forced_feed

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """Two graphs on the same sentences."""

    top1: float
    """Share of codes, over positions and codebooks, where both find the same one likeliest."""
    kl: float
    """Mean Kullback-Leibler divergence of the code distributions from FP32's, in nats."""
    hidden_snr_db: float
    positions: int


def agreement(checkpoint: Checkpoint, exact: Path, tested: Path, spoken: list[Spoken]) -> Agreement:
    """Compare `tested`, a simulation as `write_simulation` makes it, with the FP32 graph `exact` at every step."""
    same, divergence, noise, power, count = 0, 0.0, [], [], 0
    found = zip(_hidden(checkpoint, exact, spoken), _hidden(checkpoint, tested, spoken), strict=True)
    for wanted, value in found:
        first, second = _log_probabilities(checkpoint, wanted), _log_probabilities(checkpoint, value)
        same += int((first.argmax(-1) == second.argmax(-1)).sum())
        divergence += float((np.exp(first) * (first - second)).sum())
        count += first.shape[0] * first.shape[1]
        power.append(wanted)
        noise.append(value)
    snr = snr_db(np.concatenate(power), np.concatenate(noise))
    return Agreement(same / count, divergence / count, round(snr, 1), count // checkpoint.config.gpt.num_vq)


def _hidden(checkpoint: Checkpoint, file: Path, spoken: list[Spoken]) -> Iterator[npt.NDArray[np.float32]]:
    """Normed hidden states of the positions that predict codes, float32 [T, E], per sentence."""
    gpt = checkpoint.config.gpt
    weight = checkpoint.tensors["gpt"]["norm.weight"]
    model = onnx.load(file, load_external_data=False)
    residual = next(node.input[0] for node in model.graph.node if node.op_type == "GatherElements")
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(residual, onnx.TensorProto.FLOAT, None))
    with tempfile.NamedTemporaryFile(suffix=".onnx", dir=file.parent, delete=False) as handle:
        exposed = Path(handle.name)
    try:
        onnx.save(model, exposed)
        session = open_session(exposed, usable_threads())
    finally:
        exposed.unlink()
    for item in spoken:
        (x,) = session.run([residual], forced_feed(item, gpt.num_attention_heads, gpt.num_hidden_layers))
        x = x[0, len(item.embedded) - 1 :]
        yield x / np.sqrt(np.square(x).mean(-1, keepdims=True) + gpt.rms_norm_eps) * weight


def _log_probabilities(checkpoint: Checkpoint, hidden: npt.NDArray[Any]) -> F64:
    """[T, codebooks, codes]."""
    embed, gpt = checkpoint.tensors["embed"], checkpoint.config.gpt
    heads = np.stack([embed[f"head_code.{i}.weight"] for i in range(gpt.num_vq)])
    logits = np.einsum("te,qve->tqv", hidden, heads).astype(np.float64)
    logits -= logits.max(-1, keepdims=True)
    normalised: F64 = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return normalised
