"""How far a set's speech is from a reference, and how far it may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class WordErrors:
    """Word error rates of free-running speech, heard by a recogniser."""

    rate: float
    reference: float
    """Of the reference, on the same sentences and seeds."""
    standard_error: float
    """Of the difference of the two, from the differences of single sentences."""
    utterances: int

    @property
    def rise(self) -> float:
        """What is left of the difference when two standard errors are chance."""
        return self.rate - self.reference - 2 * self.standard_error


@dataclass(frozen=True)
class Quality:
    """A `gpt` graph against a reference on sentences that the reference spoke.

    All but the words are teacher-forced: both graphs read the reference's codes, so that one odd code does not decide.
    """

    reference: str
    """"fp32", or the set that was compared with."""
    simulated: bool
    """The graph of a GPU set, computed on a CPU with the set's rounding."""
    positions: int
    top1: float
    """Share of codes, over positions and codebooks, where both find the same one likeliest."""
    kl: float
    """Mean Kullback-Leibler divergence of the code distributions from the reference's, in nats."""
    hidden_snr_db: float
    """Power of the hidden states over the power of their difference."""
    mel_l1: float
    """Mean difference of the log-mel spectra, in nepers; of what the FP32 codec makes of the hidden states."""
    mcd_db: float
    """Mel-cepstral distortion of the same sound."""
    words: WordErrors | None = None
    words_note: str = "nobody listened"
    """Why `words` is None."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """From the manifest's JSON."""
        return cls(**{**data, "words": WordErrors(**data["words"]) if data["words"] else None})


@dataclass(frozen=True)
class GateLine:
    """One measure of a gate."""

    measure: str
    value: str
    limit: str
    passed: bool | None
    """None where it was not measured, which is no pass."""


@dataclass(frozen=True)
class Gate:
    """What a precision must keep."""

    least_top1: float
    most_kl: float
    least_hidden_snr_db: float
    most_mel_l1: float
    most_mcd_db: float
    most_wer_rise: float = 0.02
    """Points over the reference, beyond what chance explains."""

    def lines(self, found: Quality) -> tuple[GateLine, ...]:
        """Every measure with its limit."""
        return (
            _at_least("top-1 agreement", found.top1, self.least_top1, ".2%"),
            _at_most("KL divergence, nats", found.kl, self.most_kl, ".5f"),
            _at_least("hidden states, dB", found.hidden_snr_db, self.least_hidden_snr_db, ".1f"),
            _at_most("mel L1, Np", found.mel_l1, self.most_mel_l1, ".3f"),
            _at_most("mel-cepstral distortion, dB", found.mcd_db, self.most_mcd_db, ".2f"),
            self._words(found),
        )

    def passes(self, found: Quality) -> bool:
        """Whether no measure is beyond its limit."""
        return all(line.passed is not False for line in self.lines(found))

    def _words(self, found: Quality) -> GateLine:
        limit = f"reference + {self.most_wer_rise:.0%}, beyond chance"
        if found.words is None:
            return GateLine("WER", f"not measured: {found.words_note}", limit, None)
        words = found.words
        value = (
            f"{words.rate:.1%}, reference {words.reference:.1%} (difference +-{words.standard_error:.1%}, "
            f"{words.utterances} utterances)"
        )
        return GateLine("WER", value, limit, words.rise <= self.most_wer_rise)


GATES = {
    "fp32": Gate(0.999, 1e-5, 80, 0.001, 0.01),
    "fp16": Gate(0.99, 1e-3, 40, 0.005, 0.05),
    "int8": Gate(0.955, 0.01, 18, 0.05, 0.3),
    "int4": Gate(0.80, 0.1, 12, 0.1, 0.6),
}
"""By the precision of the tested set. INT4 may lose more: it is asked for where memory counts most."""


def coarsest(precisions: Iterable[str]) -> str:
    """The one that may lose most."""
    return max(precisions, key=list(GATES).index)


def _at_least(measure: str, value: float, limit: float, form: str) -> GateLine:
    return GateLine(measure, f"{value:{form}}", f"at least {limit:{form}}", value >= limit)


def _at_most(measure: str, value: float, limit: float, form: str) -> GateLine:
    return GateLine(measure, f"{value:{form}}", f"at most {limit:{form}}", value <= limit)
