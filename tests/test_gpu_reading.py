from types import SimpleNamespace

import pytest

from trt_tts.gpu_reading import read_gpu, visible_gpu


@pytest.mark.parametrize(
    ("mask", "device", "name"),
    [
        (None, 0, "0"),
        (None, 2, "2"),
        ("3,5", 1, "5"),
        ("GPU-a, GPU-b", 1, "GPU-b"),
        ("", 0, None),
        ("-1", 0, None),
        ("0,-1", 1, None),
        ("0", 1, None),
    ],
)
def test_the_mask_hides_and_renumbers(monkeypatch, mask, device, name):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if mask is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert visible_gpu(device) == name


class FakeError(Exception):
    pass


@pytest.fixture
def fake_nvml(monkeypatch):
    asked = []
    nvml = SimpleNamespace(
        NVMLError=FakeError,
        NVML_CLOCK_MEM=2,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: asked.append("shutdown"),
        nvmlDeviceGetHandleByIndex=lambda index: asked.append(index) or "handle",
        nvmlDeviceGetHandleByUUID=lambda uuid: asked.append(uuid) or "handle",
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=4 << 30, used=1 << 29, free=7 << 29),
        nvmlDeviceGetCudaComputeCapability=lambda handle: (7, 5),
        nvmlDeviceGetName=lambda handle: "NVIDIA GeForce GTX 1650",
        nvmlSystemGetDriverVersion=lambda: "580.1",
    )
    monkeypatch.setitem(__import__("sys").modules, "pynvml", nvml)
    return asked


@pytest.mark.parametrize(("mask", "asked"), [("4", 4), ("GPU-5c", "GPU-5c")])
def test_the_gpu_that_cuda_sees_is_the_one_that_is_read(monkeypatch, fake_nvml, mask, asked):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", mask)
    assert read_gpu(0).compute_capability == "7.5"
    assert fake_nvml == [asked, "shutdown"]


def test_a_hidden_gpu_is_not_there(monkeypatch, fake_nvml):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert read_gpu(0) is None
    assert fake_nvml == []
