"""What ends a program on the emulator by a segmentation fault; each function runs in a process of its own."""

from __future__ import annotations

from tests.cuda_emulator.control import Emulator
from tests.cuda_emulator.driver import Driver, content

# A multiple of the alignment: such an allocation ends where its guard page begins.
SIZE = 512


def reading_beyond_the_end(cuda: Driver, emulator: Emulator) -> None:
    address = cuda.device(SIZE)
    cuda.device(SIZE)
    content(address, SIZE)
    print("inside", flush=True)
    content(address + SIZE, 1)


def reading_freed_memory(cuda: Driver, emulator: Emulator) -> None:
    address = cuda.device(SIZE)
    cuda.ok("cuMemFree_v2", address)
    print("inside", flush=True)
    content(address, 1)
