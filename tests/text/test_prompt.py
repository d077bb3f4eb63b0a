import json
from pathlib import Path

import numpy as np
import pytest

from trt_tts.demo import demo_checkpoint
from trt_tts.text.prompt import CONTROL_TAGS, PROMPT_TOKENS, refine_prompt, speech_prompt
from trt_tts.text.tokenizer import load_tokenizer

REFERENCE = Path(__file__).parent.parent / "reference"
CHECKPOINTS = {"tiny": REFERENCE / "tiny", "demo_voice": demo_checkpoint()}


def cases(name):
    return json.loads((REFERENCE / name / "cases.json").read_text("utf-8"))


def tokenizer(name):
    return load_tokenizer(CHECKPOINTS[name] / "asset" / "tokenizer" / "tokenizer.json")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_speech_prompts_equal_the_published_ones(name):
    for text, prompt in zip(cases(name)["texts"], cases(name)["prompts_with_speaker"], strict=True):
        assert speech_prompt(text, 5) == prompt


@pytest.mark.parametrize("speed", range(10))
def test_the_speed_becomes_its_tag(speed):
    assert speech_prompt("hi", speed) == f"[Stts][spk_emb][speed_{speed}]hi[Ptts]"


def test_a_template_wins_over_the_speed():
    assert speech_prompt("hi", 9, "[Stts][spk_emb]{text}[Ptts]") == "[Stts][spk_emb]hi[Ptts]"


@pytest.mark.parametrize("text", ["{text}", "{0} {}", "a\\1b", "{speed}"])
def test_a_template_takes_the_text_literally(text):
    assert speech_prompt(text, 5, "<{text}>") == f"<{text}>"


def test_the_demo_voices_template_gives_the_published_prompt():
    template = json.loads((demo_checkpoint() / "config.json").read_text("utf-8"))["prompt"]
    for text, prompt in zip(cases("demo_voice")["texts"], cases("demo_voice")["prompts_with_speaker"], strict=True):
        assert speech_prompt(text, 0, template) == prompt


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_refine_prompt_has_the_published_ids(name):
    prompt = refine_prompt("the engine is ready", oral=2, laugh=0, pause=6)
    with np.load(REFERENCE / name / "vectors.npz") as vectors:
        assert tokenizer(name).encode(prompt) == vectors["refine_prompt_ids"].tolist()


@pytest.mark.parametrize(
    ("wanted", "tags"),
    [
        ((None, None, None), ""),
        ((0, None, None), "[oral_0]"),
        ((None, 2, None), "[laugh_2]"),
        ((None, None, 7), "[break_7]"),
        ((9, 1, 0), "[oral_9][laugh_1][break_0]"),
    ],
)
def test_refine_tags_are_those_that_were_asked_for(wanted, tags):
    assert refine_prompt("hi", *wanted) == f"[Sbreak]hi[Pbreak]{tags}"


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_every_special_token_is_either_the_users_or_the_programs(name):
    file = json.loads((CHECKPOINTS[name] / "asset" / "tokenizer" / "tokenizer.json").read_text("utf-8"))
    special = {token["content"] for token in file["added_tokens"]} - {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}
    assert special == set(PROMPT_TOKENS) | set(CONTROL_TAGS)
    assert not set(PROMPT_TOKENS) & set(CONTROL_TAGS)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_speech_prompt_has_exactly_one_speaker_slot(name):
    ids = tokenizer(name).encode(speech_prompt("hi", 5))
    assert ids.count(tokenizer(name).special("[spk_emb]")) == 1
