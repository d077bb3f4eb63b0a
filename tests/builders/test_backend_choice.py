from dataclasses import replace

import pytest

from trt_tts.builders.backend_choice import BackendRequest, choose_backend
from trt_tts.builders.cards import load_cards
from trt_tts.errors import MissingDependencyError, UsageError
from trt_tts.gpu_reading import GpuReading
from trt_tts.target import Machine

CARDS = load_cards()
GTX1650 = GpuReading("NVIDIA GeForce GTX 1650", 4 << 30, 1 << 29, "7.5", "580.1")
RTX = {"tensorrt_rtx": "1.7.1"}
BOTH = {"tensorrt": "10.16", **RTX}


def machine(gpu=None, tensorrt=None):
    return Machine("Linux x86_64", gpu, tensorrt or {})


def choose(on, builds_for="gtx1650", **request):
    return choose_backend(BackendRequest(**request), on, CARDS[builds_for])


@pytest.mark.parametrize("request_", [{}, {"precision": "int8"}, {"precision": "fp32"}, {"precision": "int4"}])
@pytest.mark.parametrize("tensorrt", [{}, RTX])
def test_without_a_gpu_and_without_asking_for_one_it_is_the_cpu(request_, tensorrt):
    assert choose(machine(tensorrt=tensorrt), **request_).backend == "cpu"


@pytest.mark.parametrize(
    "request_",
    [
        {"precision": "fp16"},
        {"card": "gtx1650"},
        {"calibrated": True, "precision": "int8"},
        {"flavour": "tensorrt_rtx"},
        {"backend": "tensorrt"},
    ],
)
def test_without_a_gpu_rtx_builds_ahead_when_a_gpu_set_is_asked_for(request_):
    choice = choose(machine(tensorrt=RTX), **request_)
    assert (choice.backend, choice.flavour, choice.ahead) == ("tensorrt", "tensorrt_rtx", True)
    assert "not here" in choice.reason


def test_without_gpu_and_tensorrt_it_says_what_to_install_and_offers_the_cpu():
    with pytest.raises(MissingDependencyError) as error:
        choose(machine(), precision="fp16")
    assert 'pip install "tensorrt-rtx>=1.7"' in str(error.value)
    assert 'pip install "tensorrt>=10.15,<12"' in str(error.value)
    assert "trt-tts build --backend cpu" in str(error.value)


@pytest.mark.parametrize("request_", [{}, {"precision": "fp16"}, {"precision": "int8"}, {"card": "auto"}])
def test_on_the_card_tensorrt_proper_is_preferred(request_):
    choice = choose(machine(GTX1650, BOTH), **request_)
    assert (choice.backend, choice.flavour, choice.ahead) == ("tensorrt", "tensorrt", False)


def test_on_the_card_with_rtx_only_it_builds_for_the_gpu_here():
    choice = choose(machine(GTX1650, RTX))
    assert (choice.flavour, choice.ahead) == ("tensorrt_rtx", False)


def test_on_the_card_without_tensorrt_the_cpu_is_used_and_the_command_named():
    choice = choose(machine(GTX1650))
    assert choice.backend == "cpu"
    assert 'pip install "tensorrt>=' in choice.reason


def test_for_another_card_than_the_one_here_rtx_builds_ahead():
    choice = choose(machine(GTX1650, BOTH), builds_for="rtx4060", card="rtx4060")
    assert (choice.flavour, choice.ahead) == ("tensorrt_rtx", True)
    with pytest.raises(UsageError, match="builds only for the GPU it runs on"):
        choose(machine(GTX1650, BOTH), builds_for="rtx4060", card="rtx4060", flavour="tensorrt")


def test_forcing_a_flavour_that_is_not_installed_names_the_command():
    with pytest.raises(MissingDependencyError, match='pip install "tensorrt>='):
        choose(machine(GTX1650, RTX), flavour="tensorrt")


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"backend": "gpu"}, "'gpu'; allowed: auto, cpu, tensorrt"),
        ({"flavour": "trt"}, "'trt'; allowed: tensorrt, tensorrt_rtx"),
        ({"backend": "cpu", "precision": "fp16"}, "for --backend tensorrt"),
        ({"backend": "cpu", "card": "gtx1650"}, "for --backend tensorrt"),
        ({"backend": "tensorrt", "precision": "int4"}, "int4 is built for the CPU only"),
        ({"card": "gtx1650", "precision": "int4"}, "int4 is built for the CPU only"),
        ({"backend": "cpu", "mapped": True}, "--precision-map"),
        ({"backend": "cpu", "device": 1}, "--device"),
    ],
)
def test_contradictions_are_usage_errors(request_, said):
    with pytest.raises(UsageError, match=said):
        BackendRequest(**request_)


def test_asking_for_the_cpu_wins_over_everything_here():
    assert choose(machine(GTX1650, BOTH), backend="cpu", precision="int8").backend == "cpu"
    assert choose(machine(replace(GTX1650, compute_capability="8.9"), BOTH), precision="int4").backend == "cpu"
