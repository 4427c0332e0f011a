"""Judges what was said of admitted instances by stratum and flavor: estimates, log loss beside a constant, and bounds.

An instance counts once its outcome is known. Evictions are known sooner than survivals, so while much runs the share
evicted is too high rather than too low.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import fsum, log
from typing import NamedTuple

from app.domain.strata import STRATA
from app.judging.verdicts import Judged, judge_coverage, judge_estimate, judge_loss

SURE = 1e-4
"""Estimates below this, or above 1 less this, are scored as this: a certainty that fails costs no infinity."""


class KnownEnd(NamedTuple):
    """An admitted instance with a known outcome: what was said of it, and 1 if it was evicted within its lifetime."""

    epoch: int | None
    stratum: str
    flavor: str
    said: float
    bound: float | None
    evicted: int


class Truth(NamedTuple):
    """The verdicts on what was said of the instances of a stratum or a flavor, or of all (`by`).

    `said` is the mean estimate; losses are means; `epochs` had bounds, `covered` of them no more evictions than these.
    """

    by: str
    name: str
    cases: int
    evicted: int
    said: float
    happened: float
    low: float
    high: float
    verdict: Judged
    sentence: str
    log_loss: float
    constant_log_loss: float
    loss_verdict: Judged
    loss_sentence: str
    epochs: int
    covered: int
    coverage_verdict: Judged
    coverage_sentence: str


def truths_of(known: Sequence[KnownEnd]) -> tuple[Truth, ...]:
    """Return the verdicts on all, on each stratum that has any, and on each flavor by name."""
    if not known:
        return ()
    strata, flavors = _grouped(known, "stratum"), _grouped(known, "flavor")
    return (
        _truth("all", "all", known),
        *(_truth("stratum", name, strata[name]) for name in STRATA if name in strata),
        *(_truth("flavor", name, flavors[name]) for name in sorted(flavors)),
    )


def _grouped(known: Sequence[KnownEnd], by: str) -> Mapping[str, list[KnownEnd]]:
    found: dict[str, list[KnownEnd]] = defaultdict(list)
    for one in known:
        found[getattr(one, by)].append(one)
    return found


def _truth(by: str, name: str, known: Sequence[KnownEnd]) -> Truth:
    cases, evicted = len(known), sum(one.evicted for one in known)
    said, happened = fsum(one.said for one in known) / cases, evicted / cases
    loss = -fsum(log(scored(one.said) if one.evicted else 1 - scored(one.said)) for one in known) / cases
    constant = 0.0 - sum(share * log(share) for share in (happened, 1 - happened) if share)
    epochs, covered = _coverage(known)
    judgement = judge_estimate(said, evicted, cases)
    return Truth(
        by,
        name,
        cases,
        evicted,
        said,
        happened,
        judgement.low,
        judgement.high,
        judgement.verdict,
        judgement.sentence,
        loss,
        constant,
        *judge_loss(loss, constant, evicted, cases),
        epochs,
        covered,
        *judge_coverage(covered, epochs),
    )


def scored(said: float) -> float:
    """Return the estimate as it is scored."""
    return min(max(said, SURE), 1 - SURE)


def _coverage(known: Sequence[KnownEnd]) -> tuple[int, int]:
    """Return the epochs with bounds, and those in which no more was evicted than the mean of the bounds."""
    epochs: dict[int | None, list[KnownEnd]] = defaultdict(list)
    for one in known:
        if one.bound is not None:
            epochs[one.epoch].append(one)
    held = (sum(one.evicted for one in rows) <= fsum(one.bound or 0.0 for one in rows) for rows in epochs.values())
    return len(epochs), sum(held)
