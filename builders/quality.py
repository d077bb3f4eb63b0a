"""Measures how far a `gpt` graph is from a reference on sentences that the reference spoke."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from trt_tts.cpu.session import open_session
from trt_tts.cpu.threads import usable_threads
from trt_tts.model_config import GptConfig
from trt_tts.quality import Quality
from trt_tts.selftest import snr_db

from .edited_session import load_structure, open_edited, set_outputs
from .reference import Reference
from .samples import Spoken, forced_feed
from .speech_distance import log_mel, mel_cepstral_distortion, mel_l1

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]


class Judge:
    """The reference's answers on some sentences, to hold other graphs against."""

    def __init__(self, reference: Reference, spoken: list[Spoken]) -> None:
        """Run the reference on sentences that it spoke."""
        self.gpt, self.spoken, self.name = reference.voice.config.gpt, spoken, reference.name
        self.norm, self.heads = _read_heads(reference.heads or reference.gpt, self.gpt)
        self._codec = open_session(reference.codec, usable_threads())
        self.wanted = list(self.hidden(reference.gpt))
        self._mels = [log_mel(self.sound(hidden)) for hidden in self.wanted]

    def measure(self, tested: Path, simulated: bool = False) -> Quality:
        """Compare a graph at every step; all but the words.

        Args:
            tested: a CPU set's `gpt`, or a simulation as `write_simulation` makes it.
            simulated: that it is one.
        """
        same, divergence, count = 0, 0.0, 0
        found = list(self.hidden(tested))
        for wanted, value in zip(self.wanted, found, strict=True):
            first, second = self.log_probabilities(wanted), self.log_probabilities(value)
            same += int((first.argmax(-1) == second.argmax(-1)).sum())
            divergence += float((np.exp(first) * (first - second)).sum())
            count += first.shape[0] * first.shape[1]
        mels = [log_mel(self.sound(hidden)) for hidden in found]
        return Quality(
            reference=self.name,
            simulated=simulated,
            positions=count // self.gpt.num_vq,
            top1=same / count,
            kl=divergence / count,
            hidden_snr_db=snr_db(np.concatenate(self.wanted), np.concatenate(found)),
            mel_l1=float(np.mean([mel_l1(*pair) for pair in zip(self._mels, mels, strict=True)])),
            mcd_db=float(np.mean([mel_cepstral_distortion(*pair) for pair in zip(self._mels, mels, strict=True)])),
        )

    def hidden(self, file: Path) -> Iterator[F32]:
        """Normed hidden states of the positions that predict codes, float32 [T, E], per sentence."""
        session, residual = _expose_residual(file)
        for item in self.spoken:
            feed = forced_feed(item, self.gpt.num_attention_heads, self.gpt.num_hidden_layers)
            (x,) = session.run([residual], feed)
            x = x[0, len(item.embedded) - 1 :]
            yield x / np.sqrt(np.square(x).mean(-1, keepdims=True) + self.gpt.rms_norm_eps) * self.norm

    def sound(self, hidden: F32) -> F32:
        """[T, E] -> samples [256 * (2T - 1)]."""
        samples: F32 = self._codec.run(["wav"], {"hidden": hidden[None]})[0][0]
        return samples

    def log_probabilities(self, hidden: npt.NDArray[Any]) -> F64:
        """[T, E] -> [T, codebooks, codes]."""
        logits = np.einsum("te,qve->tqv", hidden, self.heads).astype(np.float64)
        logits -= logits.max(-1, keepdims=True)
        normalised: F64 = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        return normalised


def _read_heads(file: Path, gpt: GptConfig) -> tuple[F32, F32]:
    """The last norm's weight [E] and the heads [codebooks, codes, E] of an FP32 or CPU graph."""
    graph = load_structure(file).graph
    stored = {tensor.name: tensor for tensor in graph.initializer}
    # By their nodes: the exporter stores equal constants once, under one of their names.
    places = {node.name.partition("/")[0]: node.input[1] for node in graph.node if node.op_type in ("Mul", "Gemm")}
    norm, heads = (onnx.numpy_helper.to_array(stored[places[name]], str(file.parent)) for name in ("norm", "head_code"))
    return norm, heads.reshape(gpt.num_vq, gpt.num_audio_tokens, gpt.hidden_size)


def _expose_residual(file: Path) -> tuple[Any, str]:
    """A session that gives the residual stream after the last layer, and that tensor's name."""
    model = load_structure(file)
    residual = next(node.input[0] for node in model.graph.node if node.op_type == "GatherElements")
    set_outputs(model, [residual])
    return open_edited(model, file), residual
