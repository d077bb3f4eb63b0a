"""Run one rule in this process: python -m tests.cuda_emulator.run_rule MODULE FUNCTION."""

from __future__ import annotations

import importlib
import sys

from tests.cuda_emulator.control import Emulator
from tests.cuda_emulator.driver import Driver


def main(module: str, function: str) -> None:
    cuda = Driver()
    cuda.start()
    getattr(importlib.import_module(module), function)(cuda, Emulator())


if __name__ == "__main__":
    main(*sys.argv[1:])
