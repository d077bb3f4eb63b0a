import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from trt_tts.builders.cards import MIB, Card, choose_card, load_cards, read_gpu
from trt_tts.errors import UsageError

GIB = 1024 * MIB
REQUIRED = [
    *("gtx1650", "gtx1650_gddr6", "gtx1650_super", "gtx1660", "gtx1660_ti", "gtx1660_super", "rtx2060"),
    *("rtx3050_4gb", "rtx3050_6gb", "rtx3050_8gb", "rtx3060", "rtx4060", "t4", "mx450"),
    *("generic_4gb", "generic_6gb", "generic_8gb"),
]


class NVMLError(Exception):
    pass


class FakeNvml(SimpleNamespace):
    """pynvml with one GPU. Fields that are None are refused, as an older driver does."""

    NVMLError = NVMLError
    NVML_CLOCK_MEM = 2

    def nvmlInit(self):  # noqa: N802
        self.open = getattr(self, "open", 0) + 1
        if self.fails:
            raise NVMLError("Driver Not Loaded")

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlSystemGetDriverVersion(self):  # noqa: N802
        return "580.95.05"

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802
        if index != 0:
            raise NVMLError("Invalid Argument")
        return "handle"

    def nvmlDeviceGetName(self, handle):  # noqa: N802
        return self.name

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802
        return SimpleNamespace(total=self.total, used=self.used, free=self.total - self.used)

    def nvmlDeviceGetCudaComputeCapability(self, handle):  # noqa: N802
        return self.capability

    def nvmlDeviceGetMemoryBusWidth(self, handle):  # noqa: N802
        return self._or_refuse(self.bus)

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):  # noqa: N802
        assert kind == self.NVML_CLOCK_MEM
        return self._or_refuse(self.clock)

    @staticmethod
    def _or_refuse(value):
        if value is None:
            raise NVMLError("Not Supported")
        return value


@pytest.fixture
def gpu(monkeypatch):
    """Puts a GPU into the machine."""

    def insert(name="NVIDIA GeForce GTX 1650", mib=4096, used=300, capability=(7, 5), bus=128, clock=4001, fails=False):
        fake = FakeNvml(
            name=name,
            total=int(mib * MIB),
            used=used * MIB,
            capability=capability,
            bus=bus,
            clock=clock,
            fails=fails,
        )
        monkeypatch.setitem(sys.modules, "pynvml", fake)
        return fake

    return insert


def test_the_required_presets_are_there():
    assert set(REQUIRED) <= set(load_cards())


@pytest.mark.parametrize("card", load_cards().values(), ids=lambda card: card.key)
def test_every_preset_is_sane_and_leaves_room(card):
    assert 1900 < card.memory_mib < 100_000
    assert 0 <= card.desktop_mib < 2000
    assert 100 <= card.context_mib < 2000
    assert 40 < card.bandwidth_gbs < 2000
    assert card.compute_capability in ("7.5", "8.6", "8.9")
    assert card.budget > 0.5 * card.memory
    assert len(card.source) > 20
    assert "assum" in card.source


def test_tensor_cores_are_those_of_the_rtx_and_server_cards():
    with_cores = {key for key, card in load_cards().items() if card.tensor_cores}
    assert with_cores == {key for key in load_cards() if key.startswith(("rtx", "t4"))}


def test_server_cards_have_no_desktop_and_all_others_have():
    assert [key for key, card in load_cards().items() if card.desktop_mib == 0] == ["t4"]


def test_generic_cards_are_no_better_than_the_presets_of_their_size():
    cards = load_cards()
    for size in (4, 6, 8):
        generic = cards[f"generic_{size}gb"]
        assert "conservative" in generic.source
        assert (generic.compute_capability, generic.tensor_cores) == ("7.5", False)
        same = [card for card in cards.values() if round(card.memory_mib / 1024) == size]
        assert generic.bandwidth_gbs <= min(card.bandwidth_gbs for card in same)
        assert generic.budget <= min(card.budget for card in same) + 8 * MIB


def test_sizes_are_bytes_and_the_budget_is_what_is_left():
    card = replace(load_cards()["gtx1650"], memory_mib=4095.75, desktop_mib=500.5, context_mib=300)
    assert card.memory == 4_294_705_152
    assert card.reserved == 839_385_088
    assert card.budget == card.memory - card.reserved
    assert isinstance(card.budget, int)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("key", ""),
        ("name", " "),
        ("source", ""),
        ("memory_mib", 0),
        ("memory_mib", float("nan")),
        ("desktop_mib", -1),
        ("context_mib", float("inf")),
        ("bandwidth_gbs", 0),
        ("compute_capability", "75"),
        ("compute_capability", "sm_75"),
    ],
)
def test_a_wrong_field_is_named(field, value):
    with pytest.raises(ValueError, match=field):
        replace(load_cards()["gtx1650"], **{field: value})


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("gtx1650", "gtx1650"),
        ("GTX 1650", "gtx1650"),
        ("gtx-1650", "gtx1650"),
        ("NVIDIA GeForce GTX 1650", "gtx1650"),
        ("GTX 1660 Ti", "gtx1660_ti"),
        ("gtx1650-gddr6", "gtx1650_gddr6"),
        ("RTX 3050 6GB", "rtx3050_6gb"),
        ("Tesla T4", "t4"),
        ("generic 4GB", "generic_4gb"),
    ],
)
def test_names_are_forgiving(name, key):
    choice = choose_card(name)
    assert choice.card == load_cards()[key]
    assert choice.reason


def test_an_unknown_name_is_refused_with_the_presets_and_a_suggestion():
    with pytest.raises(UsageError) as caught:
        choose_card("GTX 1650 Ti")
    message = str(caught.value)
    assert "'GTX 1650 Ti'" in message
    assert "did you mean" in message
    assert "gtx1650" in message.split("presets:")[0]
    assert all(key in message for key in REQUIRED)
    assert "auto" in message


@pytest.mark.parametrize("name", ["", "radeon"])
def test_a_name_like_no_other_is_refused_without_a_suggestion(name):
    with pytest.raises(UsageError, match="presets: gtx1650, ") as caught:
        choose_card(name)
    assert "did you mean" not in str(caught.value)


def test_a_preset_is_taken_as_written_whatever_the_machine_holds(gpu):
    gpu("NVIDIA GeForce RTX 4060", 8188, used=5000)
    assert choose_card("gtx1650").card == load_cards()["gtx1650"]


def no_gpu(choice):
    return choice.card == load_cards()["gtx1650"] and choice.reason.startswith("no NVIDIA GPU")


def test_auto_without_the_package_plans_for_the_gtx_1650(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert read_gpu() is None
    assert no_gpu(choose_card("auto"))


def test_auto_without_a_driver_plans_for_the_gtx_1650(gpu):
    fake = gpu(fails=True)
    assert no_gpu(choose_card("AUTO"))
    assert fake.open == 1  # NVML that did not open must not be shut down


def test_auto_without_that_gpu_plans_for_the_gtx_1650_and_closes_nvml(gpu):
    fake = gpu()
    choice = choose_card("auto", device=1)
    assert no_gpu(choice)
    assert "GPU 1" in choice.reason
    assert fake.open == 0


def test_a_reading_holds_what_the_driver_says_and_closes_nvml(gpu):
    fake = gpu(mib=4095.75, used=412)
    reading = read_gpu()
    assert (reading.name, reading.driver) == ("NVIDIA GeForce GTX 1650", "580.95.05")
    assert (reading.memory, reading.used) == (4_294_705_152, 412 * MIB)
    assert reading.compute_capability == "7.5"
    assert reading.bandwidth_gbs == pytest.approx(128.1, abs=0.1)
    assert fake.open == 0


@pytest.mark.parametrize(
    ("mib", "used", "desktop"), [(4096, 300, 700), (4095.75, 1044, 1044), (3.82 * 1024, 0, 700), (3911, 5, 700)]
)
def test_a_preset_takes_the_memory_of_the_machine_and_what_is_in_use_if_more(mib, used, desktop, gpu):
    gpu(mib=mib, used=used)
    choice = choose_card("auto")
    assert choice.card.key == "gtx1650"
    assert choice.card.memory == int(mib * MIB)
    assert choice.card.desktop_mib == desktop
    assert "NVIDIA GeForce GTX 1650" in choice.reason
    assert "580.95.05" in choice.reason


def test_a_card_that_others_fill_has_a_negative_budget_and_no_error(gpu):
    gpu(used=4000)
    assert choose_card("auto").card.budget < 0


@pytest.mark.parametrize(
    ("bus", "clock", "key"),
    [
        (128, 4001, "gtx1650"),
        (128, 6001, "gtx1650_gddr6"),
        (None, 6001, "gtx1650"),
        (128, None, "gtx1650"),
        (128, 0, "gtx1650"),
    ],
)
def test_the_memory_of_a_gtx_1650_is_told_by_its_bandwidth_and_is_gddr5_where_unknown(bus, clock, key, gpu):
    gpu(bus=bus, clock=clock)
    assert choose_card("auto").card.key == key


def test_an_older_package_without_the_bus_width_still_reads_the_gpu(gpu, monkeypatch):
    gpu()
    monkeypatch.delattr(FakeNvml, "nvmlDeviceGetMemoryBusWidth")
    reading = read_gpu()
    assert reading.bus_width is None
    assert reading.bandwidth_gbs is None


@pytest.mark.parametrize(
    ("name", "mib", "key"),
    [
        ("NVIDIA GeForce GTX 1650 SUPER", 4096, "gtx1650_super"),
        ("GeForce GTX 1660 Ti", 5944, "gtx1660_ti"),
        ("NVIDIA GeForce RTX 3050", 8192, "rtx3050_8gb"),
        ("NVIDIA GeForce RTX 3050", 6144, "rtx3050_6gb"),
        ("NVIDIA GeForce RTX 3050 6GB", 6144, "rtx3050_6gb"),
        ("NVIDIA GeForce RTX 3050 Laptop GPU", 4096, "rtx3050_4gb"),
        ("NVIDIA GeForce RTX 3060", 12288, "rtx3060"),
        ("NVIDIA GeForce MX450", 2048, "mx450"),
        ("Tesla T4", 15360, "t4"),
        ("NVIDIA T4", 15109, "t4"),
    ],
)
def test_a_gpu_finds_the_preset_of_its_name_and_size(name, mib, key, gpu):
    gpu(name, mib)
    assert choose_card("auto").card.key == key


@pytest.mark.parametrize(
    ("name", "mib", "key"),
    [
        ("NVIDIA GeForce GTX 1050 Ti", 4096, "generic_4gb"),
        ("NVIDIA GeForce GTX 1050 Ti", 4095.75, "generic_4gb"),
        ("NVIDIA GeForce GTX 1650 with Max-Q Design", 3.82 * 1024, "generic_4gb"),
        ("Quadro P2000", 5120, "generic_4gb"),
        ("NVIDIA GeForce GTX 1060 6GB", 6069, "generic_6gb"),
        ("NVIDIA GeForce RTX 3050 6GB Laptop GPU", 6144, "generic_6gb"),
        ("NVIDIA GeForce RTX 3060 Laptop GPU", 6144, "generic_6gb"),
        ("NVIDIA GeForce RTX 2070", 7982, "generic_8gb"),
        ("NVIDIA GeForce RTX 3060", 8192, "generic_8gb"),
        ("NVIDIA H200", 143_771, "generic_8gb"),
        ("NVIDIA GeForce GTX 1060 3GB", 3072, "generic_4gb"),
        ("NVIDIA GeForce MX350", 2048, "generic_4gb"),
    ],
)
def test_a_gpu_without_a_preset_takes_the_generic_card_of_its_size_and_its_own_memory(name, mib, key, gpu):
    gpu(name, mib, used=900, capability=(6, 1))
    choice = choose_card("auto")
    generic = load_cards()[key]
    assert choice.card == replace(
        generic,
        name=name,
        memory_mib=int(mib * MIB) / MIB,
        desktop_mib=900,
        compute_capability="6.1",
    )
    assert name in choice.reason
    assert key in choice.reason


def test_a_card_can_be_made_by_hand():
    card = Card("mine", "My card", 4096, 0, 300, 128, "7.5", False, "measured")
    assert card.budget == 3796 * MIB
    assert card.memory == 4 * GIB
