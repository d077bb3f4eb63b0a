import pytest

from trt_tts import Engine


@pytest.fixture(scope="module")
def cpu(tiny_set):
    """The FP32 set on the CPU: what the GPU must say."""
    with Engine.load(tiny_set) as engine:
        yield engine


@pytest.fixture(scope="module")
def gpu(tiny_trt_set):
    with Engine.load(tiny_trt_set) as engine:
        engine.warm_up()
        yield engine
