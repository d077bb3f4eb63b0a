"""The model's prompt: special tokens, control tags and the order they stand in."""

from __future__ import annotations

SPEAKER = "[spk_emb]"
"""Its embedding is replaced by the speaker vector."""
NO_SPEAKER = "[empty_spk]"
"""Stands in its place where a recording shows the voice."""
TRAINED_SPEED = 5
"""The speed in the templates of checkpoints that were trained at one speed only."""

PROMPT_TOKENS = (
    "[Sasr]", "[Pasr]", "[Easr]", "[Stts]", "[Ptts]", "[Etts]", "[Sbreak]", "[Pbreak]", "[Ebreak]",
    "[spk_emb]", "[empty_spk]", "[undefine]", "[music]", "[pure]",
)  # fmt: skip
"""Tokens that only the program may put into a prompt."""
CONTROL_TAGS = (
    "[uv_break]", "[v_break]", "[lbreak]", "[llbreak]", "[laugh]",
    *(f"[break_{i}]" for i in range(8)),
    *(f"[laugh_{i}]" for i in range(3)),
    *(f"[oral_{i}]" for i in range(10)),
    *(f"[speed_{i}]" for i in range(10)),
)  # fmt: skip
"""Tags a user may write into the text; each is one token."""


def speech_prompt(text: str, speed: int, template: str | None = None, transcript: str | None = None) -> str:
    """The prompt that makes the model speak `text`.

    Args:
        text: a part of a cleaned text.
        speed: 0 to 9.
        template: of checkpoints that know only one form; it holds `{text}`, and fixes the speed too.
        transcript: the words of the recording whose codes follow the prompt, instead of a speaker vector.
    """
    if transcript is None:
        return f"[Stts]{SPEAKER}[speed_{speed}]{text}[Ptts]" if template is None else template.replace("{text}", text)
    if template is None:
        return f"[Stts]{NO_SPEAKER}{transcript}[speed_{speed}]{text}[Ptts]"
    return template.replace(SPEAKER, NO_SPEAKER).replace("{text}", f"{transcript} {text}")


def refine_prompt(text: str, oral: int | None, laugh: int | None, pause: int | None) -> str:
    """The prompt that makes the model rewrite `text` with fillers, laughter and pauses."""
    tags = [("oral", oral), ("laugh", laugh), ("break", pause)]
    wanted = "".join(f"[{name}_{value}]" for name, value in tags if value is not None)
    return f"[Sbreak]{text}[Pbreak]{wanted}"
