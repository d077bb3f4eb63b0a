"""How many threads this process may really use."""

from __future__ import annotations

import math
import os
from pathlib import Path

import psutil

_CGROUP = Path("/sys/fs/cgroup")


def usable_threads() -> int:
    """CPUs in the affinity mask, no more than the container's quota (cgroup v1 or v2), rounded to whole ones."""
    try:
        allowed = len(psutil.Process().cpu_affinity())
    except AttributeError:  # macOS has no affinity
        allowed = os.cpu_count() or 1
    quota = cgroup_quota(_CGROUP)
    return allowed if quota is None else max(1, min(allowed, math.floor(quota + 0.5)))


def cgroup_quota(root: Path) -> float | None:
    """CPUs that the cgroup mounted at `root` grants, None where it sets no limit."""
    try:
        if (root / "cpu.max").exists():
            quota, period = (root / "cpu.max").read_text().split()
        else:
            quota = (root / "cpu" / "cpu.cfs_quota_us").read_text()
            period = (root / "cpu" / "cpu.cfs_period_us").read_text()
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):  # no cgroup here, or "max"
        return None
