"""The model's prompt: special tokens, control tags and the order they stand in."""

from __future__ import annotations

from trt_tts.errors import UsageError

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
