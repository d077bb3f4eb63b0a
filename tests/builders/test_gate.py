from dataclasses import replace

import pytest

from trt_tts.builders import gate
from trt_tts.builders.gate import add_words, judged_texts, make_judge, require_quality
from trt_tts.builders.reference import Reference
from trt_tts.builders.samples import TEXTS
from trt_tts.calibration.dataset import CORPUS
from trt_tts.demo import demo_checkpoint, heldout_sentences, is_demo_voice
from trt_tts.errors import BuildError, UsageError
from trt_tts.quality import Quality

GOOD = Quality("fp32", False, 100, 0.99, 0.001, 40.0, 0.001, 0.02)


@pytest.fixture(scope="module")
def reference(tiny, tiny_set):
    return Reference(tiny, tiny.hashes, tiny_set, tiny_set / "gpt.onnx", tiny_set / "codec.onnx")


def test_the_demo_voice_is_judged_on_sentences_it_was_not_trained_on(demo, tiny):
    texts = judged_texts(demo.hashes)
    trained = set((demo_checkpoint() / "train.txt").read_text("utf-8").splitlines())
    assert len(set(texts)) == gate.MOST_TEXTS
    assert not trained & set(texts)
    assert judged_texts(tiny.hashes) == TEXTS


def test_no_corpus_holds_a_judged_text():
    for file in CORPUS.glob("*.txt"):
        assert not set(TEXTS) & set(file.read_text("utf-8").splitlines()), file


def test_the_demo_voice_is_known_by_its_files(demo, tiny):
    assert is_demo_voice(demo.hashes)
    assert not is_demo_voice(tiny.hashes)
    assert not is_demo_voice({})
    assert not is_demo_voice({**demo.hashes, "config.json": "0" * 64})
    assert not is_demo_voice({**demo.hashes, "other": "0" * 64})


@pytest.mark.parametrize("count", [1, 25, 99, 100, 200])
def test_heldout_sentences_are_spread_over_the_list(count):
    lines = (demo_checkpoint() / "heldout.txt").read_text("utf-8").splitlines()
    found = heldout_sentences(count)
    assert len(found) == len(set(found)) == min(count, 100)
    assert [lines.index(text) for text in found] == sorted(lines.index(text) for text in found)
    if 1 < count < 100:
        assert lines.index(found[-1]) >= 90


def test_a_voice_that_can_speak_none_of_the_texts_is_told_what_to_do(demo, demo_set):
    reference = Reference(demo, demo.hashes, demo_set, demo_set / "gpt.onnx", demo_set / "codec.onnx")
    with pytest.raises(UsageError, match=r"none of the 2 sentences.*--no-gate.*--texts"):
        make_judge(reference, ("四是四", "十是十"))


def test_texts_of_the_callers_own_are_judged(reference):
    assert [item.text for item in make_judge(reference, ("good day", "一二三")).spoken] == ["good day", "一二三"]


def test_nobody_listens_to_a_voice_without_a_recogniser(reference):
    found = add_words(GOOD, reference, reference.gpt, lambda stage: None)
    assert found == replace(GOOD, words=None, words_note="the recogniser knows the demo voice's words only")


def test_what_is_beyond_a_limit_fails_with_its_value_and_the_way_out():
    require_quality(GOOD, "int8")
    with pytest.raises(BuildError) as error:
        require_quality(replace(GOOD, top1=0.91, kl=0.03, simulated=True), "int8")
    message = str(error.value)
    for part in (
        "top-1 agreement 91.00%, allowed at least 95.50%",
        "0.03000, allowed at most 0.01000",
        "--precision fp16",
    ):
        assert part in message
    assert "mel" not in message, "what passed is not listed"
    with pytest.raises(BuildError, match=r"--precision int8, or keep the set all the same with --no-gate"):
        require_quality(replace(GOOD, top1=0.5), "int4")
