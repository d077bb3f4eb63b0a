"""The checkpoint's tokenizer, with what the published file bakes in (padding, truncation, CLS/SEP) switched off."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from trt_tts.errors import CheckpointError

if TYPE_CHECKING:
    import tokenizers

UNKNOWN = "[UNK]"


@dataclass(frozen=True)
class Tokenizer:
    """Text to ids. Special tokens are looked up by name: their numbers differ between checkpoints."""

    inner: tokenizers.Tokenizer = field(repr=False)
    alphabet: frozenset[str] | None = None
    """The characters the voice was trained on, lower case; None: all that have a token."""

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

    @cached_property
    def specials(self) -> frozenset[str]:
        """All special tokens: each is one id wherever it stands in a text."""
        return frozenset(token.content for token in self.inner.get_added_tokens_decoder().values())

    def decode(self, ids: list[int]) -> str:
        """Text of `ids`, special tokens included."""
        return self.inner.decode(ids, skip_special_tokens=False)

    def characters(self) -> frozenset[str]:
        """The single characters that have a token, of the alphabet if there is one."""
        known = frozenset(token for token in self.inner.get_vocab() if len(token) == 1)
        return known if self.alphabet is None else known & self.alphabet

    def unknown_words(self, text: str) -> list[str]:
        """The parts of `text` that have no token or hold characters outside the alphabet, in order, each once."""
        unknown, specials = self.inner.token_to_id(UNKNOWN), self.specials
        encoding = self.inner.encode(text, add_special_tokens=False)
        parts: dict[str, None] = {}
        for number, (first, last) in zip(encoding.ids, encoding.offsets, strict=True):
            part = text[first:last]
            untrained = (
                self.alphabet is not None and part not in specials and not self.alphabet.issuperset(part.lower())
            )
            if number == unknown or untrained:
                parts[part] = None
        return list(parts)


def load_tokenizer(file: Path, alphabet: str | None = None) -> Tokenizer:
    """Load `tokenizer.json`; `alphabet` as in `Tokenizer`.

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
    return Tokenizer(inner, None if alphabet is None else frozenset(alphabet.lower()))
