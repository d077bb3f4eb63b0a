"""How far a typed `gpt` graph is from the FP32 one on speech: teacher-forced, so that one odd code does not decide."""

from __future__ import annotations

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


class Judge:
    """The FP32 graph's answers on some sentences, to hold typed graphs against."""

    def __init__(self, checkpoint: Checkpoint, exact: Path, spoken: list[Spoken]) -> None:
        embed, self.gpt = checkpoint.tensors["embed"], checkpoint.config.gpt
        self.heads = np.stack([embed[f"head_code.{i}.weight"] for i in range(self.gpt.num_vq)])
        self.norm = checkpoint.tensors["gpt"]["norm.weight"]
        self.spoken = spoken
        self.wanted = list(self.hidden(exact))

    def agreement(self, tested: Path) -> Agreement:
        """Compare `tested`, a simulation as `write_simulation` makes it, at every step."""
        same, divergence, count = 0, 0.0, 0
        found = list(self.hidden(tested))
        for wanted, value in zip(self.wanted, found, strict=True):
            first, second = self.log_probabilities(wanted), self.log_probabilities(value)
            same += int((first.argmax(-1) == second.argmax(-1)).sum())
            divergence += float((np.exp(first) * (first - second)).sum())
            count += first.shape[0] * first.shape[1]
        snr = snr_db(np.concatenate(self.wanted), np.concatenate(found))
        return Agreement(same / count, divergence / count, round(snr, 1), count // self.gpt.num_vq)

    def hidden(self, file: Path) -> Iterator[npt.NDArray[np.float32]]:
        """Normed hidden states of the positions that predict codes, float32 [T, E], per sentence."""
        session, residual = _expose_residual(file)
        for item in self.spoken:
            feed = forced_feed(item, self.gpt.num_attention_heads, self.gpt.num_hidden_layers)
            (x,) = session.run([residual], feed)
            x = x[0, len(item.embedded) - 1 :]
            yield x / np.sqrt(np.square(x).mean(-1, keepdims=True) + self.gpt.rms_norm_eps) * self.norm

    def log_probabilities(self, hidden: npt.NDArray[Any]) -> F64:
        """[T, E] -> [T, codebooks, codes]."""
        logits = np.einsum("te,qve->tqv", hidden, self.heads).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        normalised: F64 = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return normalised


def _expose_residual(file: Path) -> tuple[Any, str]:
    """A session that gives the residual stream after the last layer, and that tensor's name."""
    model = onnx.load(file, load_external_data=False)
    residual = next(node.input[0] for node in model.graph.node if node.op_type == "GatherElements")
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(residual, onnx.TensorProto.FLOAT, None))
    exposed = file.with_name(f"{file.stem}.residual.onnx")
    try:
        onnx.save(model, exposed)
        return open_session(exposed, usable_threads()), residual
    finally:
        exposed.unlink(missing_ok=True)
