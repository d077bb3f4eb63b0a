"""Gives memory back to the system between the stages of a build."""

from __future__ import annotations

import ctypes
import gc


def free_memory() -> None:
    """Collect cycles (torch's exporter leaves gigabytes in them) and, on glibc, return freed blocks to the system."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # not glibc: nothing is held back there
        return
