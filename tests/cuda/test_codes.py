import pytest

from trt_tts.cuda.codes import error_for
from trt_tts.errors import CudaError, DeviceLostError, DeviceMemoryError


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (1, CudaError, "refuses a call"),
        (2, DeviceMemoryError, "Close other programs"),
        (35, CudaError, "driver is too old"),
        (100, CudaError, "no NVIDIA GPU answers"),
        (400, CudaError, "refuses a call"),
        (700, DeviceLostError, "Restart this program"),
        (702, DeviceLostError, "Restart this program"),
        (719, DeviceLostError, "Restart this program"),
        (900, CudaError, "refuses a call"),
    ],
)
def test_codes_become_errors_that_say_what_to_do(code, kind, said):
    error = error_for("cuLaunch", code, "CUDA_ERROR_X")
    assert type(error) is kind
    assert error.code == code
    assert said in str(error)
    assert f"(cuLaunch: CUDA_ERROR_X ({code}))" in str(error)
