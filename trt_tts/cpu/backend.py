"""Runs an engine set with ONNX Runtime."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from trt_tts.audio import Samples
from trt_tts.backend import F32, I32, MemoryPart
from trt_tts.cpu.gpt import GptRunner
from trt_tts.cpu.session import open_session
from trt_tts.cpu.text_head import CpuTextHead
from trt_tts.manifest import Manifest
from trt_tts.windows import Window


class CpuBackend:
    """See `trt_tts.backend.Backend`."""

    name = "cpu"
    reason = "the set was built for the CPU"

    def __init__(self, folder: Path, manifest: Manifest, threads: int) -> None:
        """Load the resident graphs.

        Raises:
            EngineSetError: ONNX Runtime refuses a graph.
        """
        self._folder, self._manifest, self._threads = folder, manifest, threads
        self._sessions: dict[str, Any] = {}
        for name, graph in manifest.graphs.items():
            if graph.resident:
                self._session(name)
        limits, gpt = manifest.limits, manifest.config.gpt
        self.runner = GptRunner(self._sessions["gpt"], gpt, limits.max_batch, limits.capacity, limits.prefill_chunk)

    def activated(self) -> AbstractContextManager[None]:
        """As `Backend.activated`."""
        return nullcontext()

    def text_head(self) -> CpuTextHead:
        """As `Backend.text_head`."""
        return CpuTextHead(self._session("text_head"), self.runner)

    def decode_hidden(self, hidden: F32, window: Window) -> Samples:
        """As `Backend.decode_hidden`, from float32 [T, E]."""
        return self._decode("codec", {"hidden": hidden[None]}, window)

    def decode_codes(self, codes: I32, window: Window) -> Samples:
        """As `Backend.decode_codes`."""
        return self._decode("codec_vq", {"codes": np.ascontiguousarray(codes.T[None])}, window)

    def encode_voice(self, recording: Samples) -> I32:
        """As `Backend.encode_voice`."""
        codes: I32 = self._session("voice_encoder").run(["codes"], {"wav": recording[None]})[0][0]
        return codes

    def _decode(self, graph: str, feed: dict[str, Any], window: Window) -> Samples:
        samples: Samples = self._session(graph).run(["wav"], feed)[0][0, window.skip : window.skip + window.keep]
        return samples

    def warm_up(self) -> None:
        """As `Backend.warm_up`: nothing is put off here."""

    def memory(self) -> tuple[MemoryPart, ...]:
        """As `Backend.memory`. Of the cache, only what a sequence uses is touched."""
        graphs = self._manifest.graphs
        weights = (
            MemoryPart(f"{name} weights", sum(graphs[name].weight_bytes.values()), "host", graphs[name].resident)
            for name in self._sessions
        )
        return (*weights, MemoryPart("KV cache", self.runner.cache.bytes, "host"))

    def close(self) -> None:
        """As `Backend.close`."""
        self._sessions.clear()
        del self.runner

    def _session(self, name: str) -> Any:
        if name not in self._sessions:
            self._sessions[name] = open_session(self._folder / f"{name}.onnx", self._threads)
        return self._sessions[name]
