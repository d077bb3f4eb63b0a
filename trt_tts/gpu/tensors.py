"""Tensors that lie one after the other in one allocation, on the device or in pinned memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from trt_tts.cuda.driver import Pinned
from trt_tts.gpu.layout import Block, offsets, total


class Tensors:
    """Addresses by name, from `address` on."""

    def __init__(self, address: int, blocks: dict[str, Block]) -> None:
        self.address, self.blocks = address, blocks
        self.bytes = total(blocks)
        self.addresses = {name: address + offset for name, offset in offsets(blocks).items()}

    def row(self, name: str, row: int) -> int:
        """Address of one row of a tensor."""
        return self.addresses[name] + row * self.row_bytes(name)

    def row_bytes(self, name: str) -> int:
        """Bytes of one row of a tensor."""
        block = self.blocks[name]
        return block.bytes // block.shape[0]


class Staging:
    """The same in pinned memory: numpy arrays that the host writes, and what of them goes to the device.

    `tight` tensors follow each other without gaps.
    """

    def __init__(self, memory: Pinned, blocks: dict[str, Block], tight: bool) -> None:
        self.memory, self.arrays = memory, {}
        end, places = 0, offsets(blocks)
        for name, block in blocks.items():
            first = end if tight else places[name]
            end = first + block.bytes
            self.arrays[name] = _view(memory.part(first, block.bytes).array, block)
        self.bytes = end

    def up_to(self, size: int) -> Pinned:
        """The first `size` bytes."""
        return self.memory.part(0, size)


def _view(array: npt.NDArray[np.uint8], block: Block) -> npt.NDArray[Any]:
    return array.view(block.dtype).reshape(block.shape)
