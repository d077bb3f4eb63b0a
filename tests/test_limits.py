import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_tts.errors import UsageError
from trt_tts.limits import capacity_for, speech_of
from trt_tts.model_config import STEPS_PER_SECOND, ModelConfig


@given(st.floats(1, 60))
def test_capacity_holds_the_seconds_and_a_prompt(seconds):
    capacity = capacity_for(ModelConfig(), seconds)
    assert capacity >= seconds * STEPS_PER_SECOND + 256
    assert capacity % 64 == 0
    assert capacity < seconds * STEPS_PER_SECOND + 256 + 65


def test_capacity_beyond_the_models_positions_says_how_far_they_reach():
    with pytest.raises(UsageError, match="at most 82"):
        capacity_for(ModelConfig(), 100)
    assert capacity_for(ModelConfig(), None) == 2048


@given(st.floats(1, 60))
def test_speech_of_a_capacity_holds_what_was_asked_for(seconds):
    assert speech_of(capacity_for(ModelConfig(), seconds)) >= seconds
