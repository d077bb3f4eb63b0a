import dataclasses
import math

import pytest

from trt_tts.errors import TrtTtsError, UsageError
from trt_tts.options import SynthesisOptions
from trt_tts.voice import Voice

WHOLE = {
    "speed": (0, 9),
    "oral": (0, 9),
    "laugh": (0, 2),
    "pause": (0, 7),
    "top_k": (0, 1_000_000),
    "max_steps": (1, 1_000_000),
    "min_steps": (0, 1_000_000),
    "seed": (0, 2**63 - 1),
    "lookahead": (0, 255),
}
NUMBERS = {"temperature": (0.0, 10.0), "top_p": (0.0, 1.0), "repetition_penalty": (0.1, 10.0)}
SWITCHES = ("refine", "normalize", "use_decoder")
INSIDE = [(name, value) for name, bounds in (WHOLE | NUMBERS).items() for value in bounds]
OUTSIDE = [(name, value) for name, (least, most) in WHOLE.items() for value in (least - 1, most + 1)] + [
    (name, value)
    for name, (least, most) in NUMBERS.items()
    for value in (math.nextafter(least, -math.inf), math.nextafter(most, math.inf), math.nan, math.inf, -math.inf)
]


def test_the_defaults_are_the_published_ones():
    options = SynthesisOptions()
    assert dataclasses.asdict(options) == {
        "voice": None,
        "speed": 5,
        "oral": None,
        "laugh": None,
        "pause": None,
        "temperature": 0.3,
        "top_p": 0.7,
        "top_k": 20,
        "repetition_penalty": 1.05,
        "max_steps": None,
        "min_steps": 0,
        "seed": None,
        "refine": False,
        "normalize": True,
        "use_decoder": True,
        "lookahead": None,
        "language": "auto",
    }


@pytest.mark.parametrize(("name", "value"), INSIDE)
def test_a_value_on_the_bound_is_accepted(name, value):
    assert getattr(SynthesisOptions(**{name: value}), name) == value


@pytest.mark.parametrize(("name", "value"), OUTSIDE)
def test_a_value_past_the_bound_is_refused_and_named(name, value):
    with pytest.raises(UsageError) as caught:
        SynthesisOptions(**{name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize(("name", "value"), OUTSIDE[:4])
def test_a_refused_value_is_a_value_error_too(name, value):
    with pytest.raises(ValueError, match=name):
        SynthesisOptions(**{name: value})
    assert issubclass(UsageError, TrtTtsError)


@pytest.mark.parametrize("name", [*WHOLE, *NUMBERS])
@pytest.mark.parametrize("value", [True, False, "5", [5], 5 + 0j], ids=repr)
def test_a_value_of_another_type_is_refused_and_named(name, value):
    with pytest.raises(UsageError) as caught:
        SynthesisOptions(**{name: value})
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [1.0, 1.5, math.nan])
def test_a_whole_number_option_refuses_fractions_and_floats(name, value):
    with pytest.raises(UsageError, match=name):
        SynthesisOptions(**{name: value})


@pytest.mark.parametrize(
    "name", ["speed", "temperature", "top_p", "top_k", "repetition_penalty", "min_steps", *SWITCHES]
)
def test_none_is_refused_where_there_is_a_default(name):
    with pytest.raises(UsageError, match=name):
        SynthesisOptions(**{name: None})


@pytest.mark.parametrize("name", ["voice", "oral", "laugh", "pause", "max_steps", "seed"])
def test_none_is_accepted_where_it_means_the_default(name):
    assert getattr(SynthesisOptions(**{name: None}), name) is None


@pytest.mark.parametrize("name", ["temperature", "top_p", "repetition_penalty"])
def test_a_whole_number_is_accepted_for_a_number(name):
    assert getattr(SynthesisOptions(**{name: 1}), name) == 1


@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_takes_true_and_false_only(name):
    for value in (True, False):
        assert getattr(SynthesisOptions(**{name: value}), name) is value
    for value in (0, 1, "yes"):
        with pytest.raises(UsageError) as caught:
            SynthesisOptions(**{name: value})
        assert name in str(caught.value)
        assert repr(value) in str(caught.value)


@pytest.mark.parametrize("value", ["auto", "en", "zh"])
def test_a_known_language_is_accepted(value):
    assert SynthesisOptions(language=value).language == value


@pytest.mark.parametrize("value", ["", "EN", "fr", None, 5])
def test_an_unknown_language_is_refused_with_the_known_ones(value):
    with pytest.raises(UsageError) as caught:
        SynthesisOptions(language=value)
    for part in ("language", repr(value), "auto", "en", "zh"):
        assert part in str(caught.value)


@pytest.mark.parametrize("value", ["adam", Voice.from_vector([1.0, 2.0]), None])
def test_a_voice_may_be_a_name_or_a_voice(value):
    assert SynthesisOptions(voice=value).voice == value


@pytest.mark.parametrize("value", [5, 1.5, [1.0, 2.0], b"adam", True], ids=repr)
def test_a_voice_of_another_type_is_refused_and_named(value):
    with pytest.raises(UsageError) as caught:
        SynthesisOptions(voice=value)
    assert "voice" in str(caught.value)
    assert repr(value) in str(caught.value)


def test_min_steps_may_equal_max_steps():
    options = SynthesisOptions(min_steps=48, max_steps=48)
    assert (options.min_steps, options.max_steps) == (48, 48)


def test_min_steps_above_max_steps_is_refused_with_both():
    with pytest.raises(UsageError, match=r"min_steps 49 .*max_steps 48"):
        SynthesisOptions(min_steps=49, max_steps=48)


def test_override_changes_only_what_is_named():
    first = SynthesisOptions(seed=7, speed=2)
    second = first.override(speed=9, top_p=0.5)
    assert (second.speed, second.top_p, second.seed) == (9, 0.5, 7)
    assert (first.speed, first.top_p) == (2, 0.7)
    assert first.override() == first


def test_override_checks_the_values():
    with pytest.raises(UsageError, match="speed is 10"):
        SynthesisOptions().override(speed=10)
    with pytest.raises(UsageError, match="min_steps"):
        SynthesisOptions(max_steps=5).override(min_steps=6)


def test_override_of_an_unknown_option_lists_the_options():
    with pytest.raises(UsageError) as caught:
        SynthesisOptions().override(temprature=0.5)
    assert "'temprature'" in str(caught.value)
    for item in dataclasses.fields(SynthesisOptions):
        assert item.name in str(caught.value)


@pytest.mark.parametrize("name", ["speed", "seed", "voice"])
def test_options_cannot_be_changed(name):
    options = SynthesisOptions()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options, name, 3)
