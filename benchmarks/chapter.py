"""Writes a chapter that the demo voice can speak: sentences of its training text in paragraphs, by a seed.

python benchmarks/chapter.py --minutes 10 --seed 0 -o chapter.txt
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

from trt_tts.demo import demo_checkpoint
from trt_tts.files import new_file
from trt_tts.text.segments import PARAGRAPH_PAUSE, SENTENCE_PAUSE

CHARACTERS_PER_SECOND = 17.8
"""Of the demo voice, pauses not counted: the mean of 40 sentences."""
SENTENCES = (3, 8)
"""Fewest and most of a paragraph."""
QUESTIONS = ("are", "can", "could", "do", "does", "how", "is", "what", "when", "where", "which", "who", "will", "would")
TRAIN = "train.txt"


def chapter(minutes: float, seed: int) -> str:
    """Paragraphs with a blank line between, as long as the demo voice needs about `minutes` for.

    No sentence comes twice before all have come once.
    """
    draw = random.Random(seed)
    sentences = [_sentence(line) for line in (demo_checkpoint() / TRAIN).read_text("utf-8").splitlines() if line]
    left: list[str] = []
    paragraphs, seconds = [], 0.0
    while seconds < 60 * minutes:
        paragraph: list[str] = []
        for _ in range(draw.randint(*SENTENCES)):
            left = left or draw.sample(sentences, len(sentences))
            paragraph.append(left.pop())
            seconds += len(paragraph[-1]) / CHARACTERS_PER_SECOND + SENTENCE_PAUSE
        seconds += PARAGRAPH_PAUSE - SENTENCE_PAUSE
        paragraphs.append(" ".join(paragraph))
    return "\n\n".join(paragraphs) + "\n"


def _sentence(line: str) -> str:
    """With a capital and a mark at its end."""
    text = line.strip().rstrip(".?")
    mark = "?" if line.strip().endswith("?") or text.split()[0] in QUESTIONS else "."
    return text[0].upper() + text[1:] + mark


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=Path("chapter.txt"))
    arguments = parser.parse_args()
    if not 0 < arguments.minutes <= 6000:
        parser.error(f"--minutes is {arguments.minutes:g}; allowed: more than 0, at most 6000")
    with new_file(arguments.output) as work:
        work.write_text(chapter(arguments.minutes, arguments.seed), "utf-8", newline="\n")
    print(arguments.output)


if __name__ == "__main__":
    main()
