"""Runs an engine set with TensorRT."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from trt_tts.audio import Samples
from trt_tts.backend import I32, MemoryPart
from trt_tts.cuda.device import Device
from trt_tts.errors import CudaError, DeviceLostError, EngineSetError, TrtTtsError
from trt_tts.flavour import load_flavour
from trt_tts.gpu.codec import Codec
from trt_tts.gpu.gpt import GpuGptRunner
from trt_tts.gpu.hidden_states import States
from trt_tts.gpu.layout import Block, codec_blocks, io_bytes, offsets, total
from trt_tts.gpu.memory import (
    ACTIVATIONS,
    cache_item_size,
    device_total,
    engine_parts,
    pinned_bytes,
    require_limit,
    require_memory,
    weights_and_contexts,
)
from trt_tts.gpu.on_demand import (
    CodesCodec,
    GpuTextHead,
    GpuVoiceEncoder,
    OnDemand,
    text_head_blocks,
    voice_encoder_blocks,
)
from trt_tts.gpu.plan import Plan
from trt_tts.gpu.workspace import Workspace
from trt_tts.gpu_reading import memory_users, read_gpu
from trt_tts.manifest import Manifest
from trt_tts.windows import Window

WINDOW = "window"
"""Profile of the codecs."""


class GpuBackend:
    """See `trt_tts.backend.Backend`. Works beside other users of the GPU: it has a stream of its own in the primary
    context, which is current only inside `activated`."""

    name = "tensorrt"
    runner: GpuGptRunner

    def __init__(self, folder: Path, manifest: Manifest, device: int, memory_limit: int | None) -> None:
        """Load the resident graphs and allocate everything.

        Raises:
            MissingDependencyError: TensorRT, or pycuda and cuda-bindings, are not installed.
            EngineSetError: the set does not run here.
            CapacityError: it takes more memory than is free or allowed.
            CudaError: the GPU fails.
        """
        self._folder, self._manifest = folder, manifest
        self._plans: dict[str, Plan] = {}
        self._loaded: dict[str, OnDemand] = {}
        self._codes_codec: CodesCodec | None = None
        self._memory_limit = memory_limit
        self._lost: DeviceLostError | None = None
        self._flavour = load_flavour(manifest.target.runtime.partition(" ")[0])
        self.device = Device(device)
        try:
            with self.device.activated():
                self._require_fit()
                self._load()
        except BaseException:
            self.close()
            raise

    @property
    def reason(self) -> str:
        """As `Backend.reason`."""
        refusal = self.runner.decode.refusal
        graphs = "CUDA graphs" if refusal is None else f"without CUDA graphs ({refusal})"
        return f"the set was built for {self.device.name}; {self._flavour}, {self.device.driver.title}, {graphs}"

    @contextmanager
    def activated(self) -> Iterator[None]:
        """As `Backend.activated`. After a lost device every call raises."""
        if self._lost is not None:
            raise DeviceLostError(str(self._lost), self._lost.code)
        try:
            with self.device.activated():
                try:
                    yield
                except TrtTtsError:
                    self.device.synchronize()  # says so if the device is lost
                    raise
        except DeviceLostError as error:
            self._lost = error
            raise

    def text_head(self) -> GpuTextHead:
        """As `Backend.text_head`."""
        loaded = self._on_demand("text_head", text_head_blocks())
        return GpuTextHead(self.device, loaded, self.runner.last_hidden, self._manifest.config.gpt.hidden_size)

    def decode_hidden(self, hidden: States, window: Window) -> Samples:
        """As `Backend.decode_hidden`."""
        self.runner.states.gather(hidden, self._window)
        return self._codec.run(window)

    def decode_codes(self, codes: I32, window: Window) -> Samples:
        """As `Backend.decode_codes`."""
        if self._codes_codec is None:
            books, steps = self._manifest.config.gpt.num_vq, self._manifest.limits.codec_steps
            loaded = self._on_demand("codec_vq", {"codes": Block((1, books, steps), "int32")})
            codec = Codec(self.device, loaded.context)
            self._codes_codec = CodesCodec(self.device, loaded, codec, self._wav, self._sound)
        return self._codes_codec.decode(codes, window)

    def encode_voice(self, recording: Samples) -> I32:
        """As `Backend.encode_voice`."""
        loaded = self._on_demand("voice_encoder", voice_encoder_blocks(self._manifest.config.gpt.num_vq))
        return GpuVoiceEncoder(self.device, loaded).encode(recording)

    def warm_up(self) -> None:
        """As `Backend.warm_up`."""
        self.runner.warm_up()

    def memory(self) -> tuple[MemoryPart, ...]:
        """As `Backend.memory`."""
        extra = (part for loaded in self._loaded.values() for part in loaded.parts)
        return (*self._parts, *extra)

    def close(self) -> None:
        """As `Backend.close`."""
        try:
            with self.device.activated():
                self._drop()
        except CudaError:
            self._drop()
        finally:
            self.device.close()

    def _drop(self) -> None:
        """Let TensorRT's objects go while the context they live in is there."""
        self._loaded.clear()
        self._codes_codec = None
        for name in ("runner", "_codec"):
            self.__dict__.pop(name, None)
        for plan in self._plans.values():
            plan.close()
        self._plans.clear()

    def _require_fit(self) -> None:
        manifest, device = self._manifest, self.device
        if device.compute_capability != manifest.target.compute_capability:
            raise EngineSetError(
                f"{self._folder} was built for compute capability {manifest.target.compute_capability}; GPU "
                f"{device.index}, {device.name}, has {device.compute_capability}. Choose another with device="
            )
        self._parts = engine_parts(manifest.graphs, manifest.config.gpt, manifest.limits)
        free, _ = device.memory_info()
        require_memory(
            manifest, self._parts, free, read_gpu(device.index), memory_users(device.index), self._memory_limit
        )

    def _load(self) -> None:
        manifest, device = self._manifest, self.device
        gpt, limits = manifest.config.gpt, manifest.limits
        for name, graph in manifest.graphs.items():
            if graph.resident:
                self._plans[name] = Plan(self._flavour, device, self._folder / graph.files[0], graph)
        codec = self._plans["codec"].context(WINDOW)
        self.runner = GpuGptRunner(self._plans["gpt"], gpt, limits, cache_item_size(manifest.graphs["gpt"]))
        need = self._activation_bytes()
        # Another driver or GPU of the kind may need another amount than the builder reported.
        self._parts = tuple(replace(part, bytes=need) if part.name == ACTIVATIONS else part for part in self._parts)
        require_limit("the engine", device_total(self._parts), 0, self._memory_limit)
        workspace = self._workspace = Workspace(device, need)
        for context in (*self.runner.contexts, codec):
            workspace.lend(context, need)
        io, pinned = device.allocate(io_bytes(gpt, limits)), device.allocate_pinned(pinned_bytes(gpt, limits))
        sound = codec_blocks(gpt, limits)
        self._sound = pinned.part(pinned.array.nbytes - sound["wav"].bytes, sound["wav"].bytes)
        self.runner.bind(io, pinned)
        self._window = io + self.runner.io_bytes
        self._wav = self._window + offsets(sound)["wav"]
        self._codec = Codec(device, codec)
        self._codec.bind("hidden", sound["hidden"].shape, 1, self._window, self._wav, self._sound)

    def _activation_bytes(self) -> int:
        """What TensorRT itself asks for: the largest need of any profile of the resident graphs."""
        return max(plan.activation_bytes(name) for plan in self._plans.values() for name in plan.profiles)

    def _on_demand(self, name: str, blocks: dict[str, Block]) -> OnDemand:
        if name not in self._loaded:
            graph = self._manifest.graphs[name]
            more = weights_and_contexts(graph) + total(blocks)
            require_limit(f"{name}, which this call uses,", more, device_total(self.memory()), self._memory_limit)
            plan = Plan(self._flavour, self.device, self._folder / graph.files[0], graph)
            try:
                with self.device.all_or_nothing():
                    self._loaded[name] = OnDemand(name, plan, graph, blocks, self._workspace)
            except BaseException:
                plan.close()
                raise
            self._plans[name] = plan
        return self._loaded[name]
