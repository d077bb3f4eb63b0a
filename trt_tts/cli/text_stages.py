"""Shows what became of a text before it is spoken."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from trt_tts.cli.console import table
from trt_tts.engine import Engine
from trt_tts.errors import TextError
from trt_tts.options import SynthesisOptions


def print_stages(engine: Engine, text: str, options: SynthesisOptions, console: Console) -> None:
    """The stages of every paragraph, then the segments; of a text that cannot be spoken, the paragraph that cannot.

    Raises:
        TextError: the voice cannot speak it.
    """
    try:
        prepared = engine.prepare_text(text, options)
    except TextError as error:
        _print_paragraph("This cannot be spoken", error.stages, console)
        raise
    for number, paragraph in enumerate(prepared.paragraphs, 1):
        _print_paragraph(f"Paragraph {number}", paragraph.stages, console)
    rows = table("Segments", "", "tokens", "pause after", "text")
    for number, (segment, tokens) in enumerate(zip(prepared.segments, prepared.tokens, strict=True), 1):
        rows.add_row(str(number), str(tokens), f"{segment.pause:.2f} s", segment.text)
    console.print(rows)


def _print_paragraph(title: str, stages: Sequence[tuple[str, str]], console: Console) -> None:
    rows = table(title, "stage", "text")
    before = None
    for stage, text in stages:
        # A stray half of a character cannot be printed.
        shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
        rows.add_row(stage, "the same" if text == before else shown)
        before = text
    console.print(rows)
