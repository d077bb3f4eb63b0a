"""What the engine needs of a backend: `trt_tts.cpu` and `trt_tts.gpu` implement it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from trt_tts.audio import Samples
from trt_tts.model_config import GptConfig
from trt_tts.windows import Window

F32: TypeAlias = npt.NDArray[np.float32]
I32: TypeAlias = npt.NDArray[np.int32]
Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class MemoryPart:
    """Memory that an engine holds."""

    name: str
    bytes: int
    where: str
    """"device"; "pinned", page-locked memory of the host; "host"."""
    resident: bool = True
    """Held from the start; other parts came with the first use of a graph."""


class Drawn(Protocol):
    """The codes of a call that may still be running."""

    def codes(self) -> I32:
        """int32 [rows, 4], one line per row of the call; waits for them. A row whose numbers are not finite has -1."""


class Runner(Protocol):
    """Runs the `gpt` graph for up to `max_batch` sequences, each in a row of its own and at a position of its own.

    The caller fills `noise`, `sampling` and `allow_end` of the rows in use, then calls `prefill`, `extend` or `step`.
    The codes of one call are the input of the next: they need not have been read for it.
    """

    sizes: GptConfig
    capacity: int
    """Positions of a row."""
    lag: int
    """How many calls to have running before the codes of the first are read."""
    noise: F32
    """[rows, 4, 50]."""
    sampling: F32
    """[rows, 4]: temperature, top-P, top-K, repetition penalty."""
    allow_end: Flags
    """[rows]."""

    def reset(self) -> None:
        """Start a run with no row in use, whatever an earlier one left behind."""

    def prefill(self, row: int, used_rows: int, embedded: F32, codes: I32, is_code: Flags) -> Drawn:
        """Start a sequence in `row` with a prompt, and draw its first codes. Arguments and errors as `extend`."""

    def extend(self, row: int, used_rows: int, embedded: F32, codes: I32, is_code: Flags) -> Drawn:
        """Append S positions to `row`, in chunks, and draw the codes that follow, one line.

        Args:
            row: the row to write.
            used_rows: the first so many rows hold sequences to keep.
            embedded: float32 [S, E], contiguous, read where `is_code` is false.
            codes: int32 [S, 4], contiguous, read where `is_code` is true.
            is_code: bool [S].

        Raises:
            CapacityError: the positions do not fit; nothing was computed.
        """

    def step(self, count: int) -> Drawn:
        """One decode step of the first `count` rows.

        Raises:
            CapacityError: a row is full; nothing was computed.
        """

    def move(self, source: int, target: int) -> None:
        """Move a sequence to another row."""

    def hidden(self, row: int, first: int, steps: int) -> Any:
        """The states that predicted `steps` codes of the sequence in `row`, from its step `first` on, as the backend
        decodes them. Valid until the next call on the runner."""


class TextHead(Protocol):
    """Draws the text of the refine pass from the runner's last hidden state of row 0."""

    def start(self) -> None:
        """Forget what was drawn."""

    def draw(self, noise: F32, sampling: F32) -> int:
        """The next token id, -1 where the numbers are not finite; noise float32 [1, 1, 50], sampling [1, 4]."""


class Backend(Protocol):
    """A loaded engine set."""

    name: str
    """"cpu" or "tensorrt"."""

    @property
    def reason(self) -> str:
        """Why it runs here, and how."""

    @property
    def runner(self) -> Runner:
        """Runs the decode loop."""

    def activated(self) -> AbstractContextManager[None]:
        """All other methods are called inside."""

    def text_head(self) -> TextHead:
        """Loaded at the first call."""

    def decode_hidden(self, hidden: Any, window: Window) -> Samples:
        """What is kept of a window's sound, float32 [window.keep], from its steps' hidden states."""

    def decode_codes(self, codes: I32, window: Window) -> Samples:
        """The same from its codes, int32 [window.steps, 4], with a graph that is loaded at the first call."""

    def encode_voice(self, recording: Samples) -> I32:
        """The codes of a recording at 24000 Hz, int32 [4, T], with a graph that is loaded at the first call."""

    def warm_up(self) -> None:
        """Do now what would otherwise be done at a first use."""

    def memory(self) -> tuple[MemoryPart, ...]:
        """What is held at present."""

    def close(self) -> None:
        """Give everything back."""
