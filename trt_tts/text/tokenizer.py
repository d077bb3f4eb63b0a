"""The checkpoint's tokenizer, with what the published file bakes in (padding, truncation, CLS/SEP) switched off."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trt_tts.errors import CheckpointError

if TYPE_CHECKING:
    import tokenizers

UNKNOWN = "[UNK]"


@dataclass(frozen=True)
class Tokenizer:
    """Text to ids. Special tokens are looked up by name: their numbers differ between checkpoints."""

    inner: tokenizers.Tokenizer

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special tokens in it become their single id. Nothing is added or cut."""
        return self.inner.encode(text, add_special_tokens=False).ids

    def special(self, name: str) -> int:
        """The id of a special token.

        Raises:
            CheckpointError: the tokenizer lacks it.
        """
        number = self.inner.token_to_id(name)
        if number is None:
            raise CheckpointError(f"the tokenizer lacks the token {name}; it is no ChatTTS tokenizer")
        return number

    def specials(self) -> set[str]:
        """All special tokens: each is one id wherever it stands in a text."""
        return {token.content for token in self.inner.get_added_tokens_decoder().values()}

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`, special tokens included."""
        return self.inner.decode(ids, skip_special_tokens=False)

    def unknown_words(self, text: str) -> list[str]:
        """The parts of `text` that have no token, in order, each once."""
        unknown = self.inner.token_to_id(UNKNOWN)
        encoding = self.inner.encode(text, add_special_tokens=False)
        parts = [text[a:b] for i, (a, b) in zip(encoding.ids, encoding.offsets, strict=True) if i == unknown]
        return list(dict.fromkeys(parts))


def load_tokenizer(file: Path) -> Tokenizer:
    """Load `tokenizer.json`.

    Raises:
        CheckpointError: the file is missing or unreadable.
    """
    import tokenizers

    try:
        inner = tokenizers.Tokenizer.from_str(file.read_text("utf-8"))
    # tokenizers raises plain Exception for any malformed file.
    except Exception as error:
        raise CheckpointError(f"{file} is no tokenizer file: {error}") from error
    inner.no_padding()
    inner.no_truncation()
    return Tokenizer(inner)
