import os

import psutil
import pytest

from trt_tts.cpu import threads
from trt_tts.cpu.threads import cgroup_quota, usable_threads


def version_2(root, text):
    root.mkdir(exist_ok=True)
    (root / "cpu.max").write_text(text)
    return root


def version_1(root, quota, period):
    (root / "cpu").mkdir(parents=True)
    if quota is not None:
        (root / "cpu" / "cpu.cfs_quota_us").write_text(quota)
    if period is not None:
        (root / "cpu" / "cpu.cfs_period_us").write_text(period)
    return root


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Gives this process `cpus` CPUs in its affinity mask and the cgroup file `cpu.max`."""

    def pretend(cpus, cpu_max=None):
        root = tmp_path / "cgroup"
        if cpu_max is not None:
            version_2(root, cpu_max)
        monkeypatch.setattr(threads, "_CGROUP", root)
        monkeypatch.setattr(psutil.Process, "cpu_affinity", lambda self: list(range(cpus)), raising=False)

    return pretend


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max 100000\n", None),
        ("150000 100000\n", 1.5),
        ("200000 100000", 2.0),
        ("50000 100000\n", 0.5),
        ("25000 50000\n", 0.5),
        ("", None),
        ("nonsense\n", None),
        ("100000\n", None),
        ("max\n", None),
    ],
)
def test_version_2_quota(text, expected, tmp_path):
    assert cgroup_quota(version_2(tmp_path, text)) == expected


@pytest.mark.parametrize(
    ("quota", "period", "expected"),
    [
        ("-1\n", "100000\n", None),
        ("250000\n", "100000\n", 2.5),
        ("50000\n", "100000\n", 0.5),
        ("", "100000\n", None),
        (None, "100000\n", None),
        ("250000\n", None, None),
    ],
)
def test_version_1_quota(quota, period, expected, tmp_path):
    assert cgroup_quota(version_1(tmp_path, quota, period)) == expected


def test_no_cgroup_means_no_quota(tmp_path):
    assert cgroup_quota(tmp_path) is None
    assert cgroup_quota(tmp_path / "missing") is None


@pytest.mark.parametrize(
    ("cpus", "cpu_max", "expected"),
    [
        (8, None, 8),
        (8, "max 100000", 8),
        (8, "200000 100000", 2),
        (8, "150000 100000", 2),
        (8, "140000 100000", 1),
        (8, "10000 100000", 1),
        (8, "1600000 100000", 8),
        (1, "400000 100000", 1),
        (3, None, 3),
    ],
)
def test_usable_threads_is_the_smaller_of_affinity_and_quota(cpus, cpu_max, expected, machine):
    machine(cpus, cpu_max)
    assert usable_threads() == expected


def test_usable_threads_counts_cpus_where_there_is_no_affinity(machine, monkeypatch):
    machine(8)
    monkeypatch.delattr(psutil.Process, "cpu_affinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert usable_threads() == 5
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_threads() == 1


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs an affinity mask")
def test_usable_threads_follows_the_real_affinity_mask():
    before = os.sched_getaffinity(0)
    assert 1 <= usable_threads() <= len(before)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert usable_threads() == 1
    finally:
        os.sched_setaffinity(0, before)
