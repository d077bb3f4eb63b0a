"""Runs the `text_head` graph with ONNX Runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trt_tts.backend import F32
from trt_tts.cpu.gpt import GptRunner
from trt_tts.model_config import PENALTY_WINDOW

if TYPE_CHECKING:
    import onnxruntime


class CpuTextHead:
    """See `trt_tts.backend.TextHead`."""

    def __init__(self, session: onnxruntime.InferenceSession, runner: GptRunner) -> None:
        self._session, self._runner = session, runner
        self.start()

    def start(self) -> None:
        """As `TextHead.start`."""
        self._recent = np.full((1, PENALTY_WINDOW, 1), -1, np.int32)

    def draw(self, noise: F32, sampling: F32) -> int:
        """As `TextHead.draw`."""
        feed = {
            "hidden": self._runner.last_hidden[:1],
            "recent": self._recent,
            "noise": noise,
            "sampling": sampling,
            "allow_end": np.ones(1, np.bool_),
        }
        token, self._recent = self._session.run(["ids", "recent_out"], feed)
        return int(token[0, 0])
