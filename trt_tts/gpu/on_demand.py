"""Graphs that are loaded at their first use: the refine pass's text head, the codec that reads codes, and the voice
encoder."""

from __future__ import annotations

import numpy as np

from trt_tts.audio import Samples
from trt_tts.backend import F32, I32, MemoryPart
from trt_tts.cuda.device import Device
from trt_tts.cuda.driver import Pinned
from trt_tts.gpu.codec import Codec
from trt_tts.gpu.layout import Block, offsets, total
from trt_tts.gpu.memory import weights_and_contexts
from trt_tts.gpu.plan import Context, Plan
from trt_tts.gpu.tensors import Staging, Tensors
from trt_tts.gpu.workspace import Workspace
from trt_tts.manifest import GraphInfo
from trt_tts.model_config import HOP_LENGTH, MAX_CANDIDATES, PENALTY_WINDOW, SAMPLE_RATE
from trt_tts.recording import MOST_SECONDS
from trt_tts.windows import Window

_SENT = ("noise", "sampling", "allow_end")
_UNSEEN = 0xFF
"""Of every byte of a penalty window: the ids in it are -1."""


class OnDemand:
    """A plan with one context and memory of its own."""

    def __init__(self, name: str, plan: Plan, graph: GraphInfo, blocks: dict[str, Block], workspace: Workspace) -> None:
        """Load it.

        Args:
            name: of the graph.
            plan: its plan, of one profile.
            graph: what the manifest says of it.
            blocks: its inputs and outputs.
            workspace: activation memory to borrow.

        Raises:
            DeviceMemoryError: it does not fit.
        """
        (profile,) = plan.profiles
        self.context: Context = plan.context(profile)
        own = workspace.lend(self.context, plan.activation_bytes(profile))
        self.tensors = Tensors(plan.device.allocate(total(blocks)), blocks)
        self.pinned = plan.device.allocate_pinned(total(blocks))
        size = weights_and_contexts(graph) + own + self.tensors.bytes
        self.parts = (
            MemoryPart(name, size, "device", resident=False),
            MemoryPart(f"{name} staging", self.pinned.array.nbytes, "pinned", resident=False),
        )


class CodesCodec:
    """The codec that reads codes."""

    def __init__(self, device: Device, loaded: OnDemand, codec: Codec, wav: int, pinned: Pinned) -> None:
        """`codec` runs the plan's context; `wav` and `pinned` are lent by the codec that reads hidden states."""
        self._device, self._loaded, self._codec = device, loaded, codec
        codes = loaded.tensors.blocks["codes"]
        codec.bind("codes", codes.shape, 2, loaded.tensors.address, wav, pinned)

    def decode(self, codes: I32, window: Window) -> Samples:
        """As `Backend.decode_codes`."""
        source = self._loaded.pinned.part(0, codes.nbytes)
        source.array.view(np.int32)[:] = codes.T.ravel()
        self._device.driver.copy_up(self._loaded.tensors.address, source, self._device.stream)
        return self._codec.run(window)


class GpuTextHead:
    """See `trt_tts.backend.TextHead`."""

    def __init__(self, device: Device, loaded: OnDemand, hidden: int, width: int) -> None:
        """`hidden` is the address of the state to read, float32 [1, `width`]."""
        self._device, self._loaded = device, loaded
        self._staging = Staging(loaded.pinned, loaded.tensors.blocks, tight=False)
        blocks = loaded.tensors.blocks
        inputs = {name: blocks[name].shape for name in (*_SENT, "recent")} | {"hidden": (1, width)}
        loaded.context.bind(inputs, loaded.tensors.addresses | {"hidden": hidden})
        self._sent = self._staging.up_to(offsets(blocks)["recent"])
        self.start()

    def start(self) -> None:
        """As `TextHead.start`."""
        tensors = self._loaded.tensors
        self._device.driver.fill(
            tensors.addresses["recent"], _UNSEEN, tensors.blocks["recent"].bytes, self._device.stream
        )

    def draw(self, noise: F32, sampling: F32) -> int:
        """As `TextHead.draw`."""
        device, tensors, arrays = self._device, self._loaded.tensors, self._staging.arrays
        arrays["noise"][:], arrays["sampling"][:], arrays["allow_end"][:] = noise, sampling, True
        device.driver.copy_up(tensors.address, self._sent, device.stream)
        self._loaded.context.enqueue()
        size = tensors.blocks["recent"].bytes
        device.driver.copy(tensors.addresses["recent"], tensors.addresses["recent_out"], size, device.stream)
        answer = self._loaded.pinned.part(0, tensors.blocks["ids"].bytes)
        device.driver.copy_down(answer, tensors.addresses["ids"], device.stream)
        device.synchronize()
        return int(answer.array.view(np.int32)[0])


class GpuVoiceEncoder:
    """Turns recordings into codes."""

    def __init__(self, device: Device, loaded: OnDemand) -> None:
        """Use a loaded `voice_encoder`."""
        self._device, self._loaded = device, loaded
        loaded.context.bind({}, loaded.tensors.addresses)

    def encode(self, recording: Samples) -> I32:
        """As `Backend.encode_voice`."""
        device, loaded = self._device, self._loaded
        loaded.context.bind({"wav": (1, len(recording))}, {})
        source = loaded.pinned.part(0, recording.nbytes)
        source.array.view(np.float32)[:] = recording
        device.driver.copy_up(loaded.tensors.addresses["wav"], source, device.stream)
        loaded.context.enqueue()
        _, books, steps = loaded.context.shape("codes")
        answer = loaded.pinned.part(0, 4 * books * steps)
        device.driver.copy_down(answer, loaded.tensors.addresses["codes"], device.stream)
        device.synchronize()
        return answer.array.view(np.int32).reshape(books, steps).copy()


def voice_encoder_blocks(books: int) -> dict[str, Block]:
    """Its tensors, for the longest recording."""
    most = round(MOST_SECONDS * SAMPLE_RATE)
    return {
        "wav": Block((1, most), "float32"),
        "codes": Block((1, books, (most // HOP_LENGTH + 1) // 2), "int32"),
    }


def text_head_blocks() -> dict[str, Block]:
    """Its tensors but `hidden`; those the host sends come first."""
    return {
        "noise": Block((1, 1, MAX_CANDIDATES), "float32"),
        "sampling": Block((1, 4), "float32"),
        "allow_end": Block((1,), "bool"),
        "recent": Block((1, PENALTY_WINDOW, 1), "int32"),
        "recent_out": Block((1, PENALTY_WINDOW, 1), "int32"),
        "ids": Block((1, 1), "int32"),
    }
