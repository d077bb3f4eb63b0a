"""The text that the streaming benchmark speaks."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from trt_tts.demo import demo_checkpoint


@pytest.fixture(scope="module")
def chapters():
    file = Path(__file__).parents[2] / "benchmarks" / "chapter.py"
    spec = importlib.util.spec_from_file_location("chapter", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["chapter"] = module
    spec.loader.exec_module(module)
    return module


def sentences_of(text):
    return re.findall(r"[^.?]+[.?]", text.replace("\n", " "))


def test_a_chapter_is_a_fixed_function_of_its_seed(chapters):
    assert chapters.chapter(3, 1) == chapters.chapter(3, 1) != chapters.chapter(3, 2)


def test_it_is_made_of_the_training_sentences_none_twice(chapters):
    known = {line.strip().rstrip(".?") for line in (demo_checkpoint() / "train.txt").read_text("utf-8").splitlines()}
    found = [sentence.strip()[:-1] for sentence in sentences_of(chapters.chapter(10, 0))]
    assert {sentence[0].lower() + sentence[1:] for sentence in found} <= known
    assert all(sentence[0].isupper() for sentence in found)
    assert len(found) > 100
    lines = (demo_checkpoint() / "train.txt").read_text("utf-8").count("\n")
    assert len(found) - len(set(found)) < len(found) ** 2 / lines, "more than lines that train.txt has twice"


def test_it_has_paragraphs_and_questions(chapters):
    text = chapters.chapter(10, 0)
    paragraphs = text.strip().split("\n\n")
    assert len(paragraphs) > 10
    assert all(3 <= len(sentences_of(paragraph)) <= 8 for paragraph in paragraphs)
    assert "What time is it?" in chapters.chapter(400, 0)
    assert "?" in text


def test_the_demo_voice_speaks_it_in_about_that_time(chapters, engine):
    audio = engine.synthesize(chapters.chapter(0.3, 4), seed=0)
    assert not audio.truncated
    assert 0.3 * 60 * 0.75 < audio.duration < (0.3 * 60 + 8 * 4) * 1.25, "a paragraph may go beyond"
