"""Shows what became of a text before it is spoken."""

from __future__ import annotations

from rich.console import Console

from trt_tts.cli.console import table
from trt_tts.frontend import PreparedText


def print_stages(prepared: PreparedText, console: Console) -> None:
    """The stages of every paragraph, then the segments."""
    for number, paragraph in enumerate(prepared.paragraphs, 1):
        rows = table(f"Paragraph {number}", "stage", "text")
        before = None
        for stage, text in paragraph.stages:
            # A stray half of a character cannot be printed.
            shown = text.encode("utf-8", "backslashreplace").decode("utf-8")
            rows.add_row(stage, "the same" if text == before else shown)
            before = text
        console.print(rows)
    rows = table("Segments", "", "tokens", "pause after", "text")
    for number, (segment, tokens) in enumerate(zip(prepared.segments, prepared.tokens, strict=True), 1):
        rows.add_row(str(number), str(tokens), f"{segment.pause:.2f} s", segment.text)
    console.print(rows)
