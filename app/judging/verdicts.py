"""Verdicts on what was said, each with its sentence. Every answer, command, page and report has them from here.

A verdict goes by the interval of what happened (`exact_interval`), as if evictions were independent. Where it does not
tell, no verdict is given: too few are known.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from app.domain.numbers import number_text, share_text
from app.judging.intervals import CONFIDENCE, exact_interval

FEWEST = 20
"""Of fewer past cases nothing is said, and of fewer admitted instances only what chance does not explain."""
_NOT_ONE = 2
"""One eviction may meet anybody. So many, of few and beyond what chance explains, are told as `above`."""
_WIDEST = 2.0
"""An estimate is called true only if the interval shows that not more than so many times it happened."""


class Judged(StrEnum):
    """The verdict on a promise, an estimate, a forecast or its bounds.

    Of a promise: `kept` and `broken` are sure; `kept_so_far` and `above` may be chance, or are of few. Of an estimate:
    `true`; `too_low` if more happened than was said, `too_high` if less did. Of a forecast beside a constant: `better`
    or `no_better`. Of bounds: `held` or `too_low`. Of all: `too_few`.
    """

    KEPT = "kept"
    KEPT_SO_FAR = "kept_so_far"
    ABOVE = "above"
    BROKEN = "broken"
    TRUE = "true"
    TOO_LOW = "too_low"
    TOO_HIGH = "too_high"
    BETTER = "better"
    NO_BETTER = "no_better"
    HELD = "held"
    TOO_FEW = "too_few"


_WORDS = {
    Judged.KEPT: "kept",
    Judged.KEPT_SO_FAR: "kept so far, not for certain",
    Judged.ABOVE: "above so far, perhaps by chance",
    Judged.BROKEN: "broken",
    Judged.TRUE: "true",
    Judged.TOO_LOW: "too low",
    Judged.TOO_HIGH: "too high",
}


class Judgement(NamedTuple):
    """A verdict, its sentence, and the interval that it goes by."""

    verdict: Judged
    sentence: str
    low: float
    high: float


def judge_promise(promised: float, evicted: int, admitted: int) -> Judgement:
    """Return whether at most the promised share of those admitted was evicted.

    `promised`: their probability, or the mean of theirs.
    """
    low, high = exact_interval(evicted, admitted)
    said = f"promised at most {share_text(promised)}"
    if admitted < FEWEST and low > promised and evicted >= _NOT_ONE:
        sentence = f"{said}, {number_text(evicted)} of {number_text(admitted)} evicted: above so far, of few"
        return Judgement(Judged.ABOVE, sentence, low, high)
    if admitted < FEWEST:
        return Judgement(Judged.TOO_FEW, f"{said}, {_too_few(evicted, admitted, 'instances')}", low, high)
    if low > promised:
        verdict = Judged.BROKEN
    elif high <= promised:
        verdict = Judged.KEPT
    else:
        verdict = Judged.KEPT_SO_FAR if evicted <= promised * admitted else Judged.ABOVE
    return _judged(verdict, said, low, high)


def told_of_overrunning(judgement: Judgement, overran: int, admitted: int) -> Judgement:
    """Return the verdict on a promise, which says so if most of those admitted ran on when it was over.

    Then lifetimes were declared shorter than they were meant, and a kept promise says little.
    """
    if 2 * overran <= admitted:
        return judgement
    ran_on = f"{number_text(overran)} of {number_text(admitted)} ran on after their declared lifetime"
    return judgement._replace(sentence=f"{judgement.sentence}; {ran_on}")


def judge_estimate(said: float, evicted: int, cases: int) -> Judgement:
    """Return whether the mean estimate of past cases is what happened to them."""
    low, high = exact_interval(evicted, cases)
    told = f"said {share_text(said)}"
    if cases >= FEWEST and not low <= said <= high:
        return _judged(Judged.TOO_LOW if said < low else Judged.TOO_HIGH, told, low, high)
    if cases < FEWEST:
        return Judgement(Judged.TOO_FEW, f"{told}, {_too_few(evicted, cases, 'starts')}", low, high)
    if high > _WIDEST * said:
        sentence = f"{told}, {_too_few(evicted, cases, 'evictions')}, more than twice what was said is possible"
        return Judgement(Judged.TOO_FEW, sentence, low, high)
    return _judged(Judged.TRUE, told, low, high)


def judge_loss(loss: float, constant_loss: float, evicted: int, cases: int) -> tuple[Judged, str]:
    """Return whether a forecast knew more of the cases than the best constant, which is known in hindsight only."""
    if cases < FEWEST or not 0 < evicted < cases:
        what = "starts" if cases < FEWEST else "evictions" if not evicted else "survivors"
        return Judged.TOO_FEW, _too_few(evicted, cases, what)
    share = loss / constant_loss
    words = f"log loss {number_text(share)} of the best constant's"
    return (Judged.BETTER, f"{words}: better") if share < 1 else (Judged.NO_BETTER, f"{words}: no better")


def judge_coverage(covered: int, epochs: int, confidence: float = CONFIDENCE) -> tuple[Judged, str]:
    """Return whether bounds of this confidence held in as many epochs as they should."""
    words = f"the bound held in {number_text(covered)} of {number_text(epochs)} epochs"
    if epochs < FEWEST:
        return Judged.TOO_FEW, f"{words}: too few epochs to judge"
    _, high = exact_interval(covered, epochs)
    return (Judged.TOO_LOW, f"{words}: too low") if high < confidence else (Judged.HELD, f"{words}: as it should")


def range_text(low: float, high: float) -> str:
    """Return an interval in per cent: `0.8 to 1.3 %`."""
    return f"{share_text(low).removesuffix(' %')} to {share_text(high)}"


def _judged(verdict: Judged, said: str, low: float, high: float) -> Judgement:
    return Judgement(verdict, f"{said}, happened {range_text(low, high)}: {_WORDS[verdict]}", low, high)


def _too_few(evicted: int, cases: int, what: str) -> str:
    return f"{number_text(evicted)} of {number_text(cases)} evicted: too few {what} to judge"
