"""The rules by which a host admits a foreign job or refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from app.domain.times import DAY_US
from app.federation.rules.increase import (
    CELL_US,
    NativeUse,
    PathPart,
    cells_of,
    path_beside,
    share_alive,
    share_of_all,
    told_by_hour,
)

WARM_UP_US = 2 * DAY_US
"""A host that knows less of its past admits no foreign job, unless by the rule `none`."""
_NEAR_US = DAY_US // 24
"""Moments at most this far from now in their time of day count as of the same hour."""
_POOLED_FROM = 40
"""The number of admissions from which a host pools its promises."""
_USED_SHARE = 0.7
"""The share of what an SLA grants that a host uses: for one job, and for all jobs that were preempted or run."""
_MOST_RISK = 0.5
"""A job that is likelier to be preempted than not is admitted by no account."""
_CLOSED_BEYOND = 20
"""A host closes once so many jobs more were preempted than its admissions had earned."""
_CLOSED_US = 30 * DAY_US
"""The time that a host stays closed, from the first offer that it refuses for that reason."""


class HostRule(StrEnum):
    """`none` admits what fits; `literal` is EXFed's first check; `timeline` follows the room beside the job; `tenure`
    asks for evidence, looks at the hour, and pools its promises.
    """

    NONE = "none"
    LITERAL = "literal"
    TIMELINE = "timeline"
    TENURE = "tenure"


@dataclass(slots=True)
class HostBook:
    """The promises of a host: its admissions, those that were preempted, and the risk of each that runs.

    `closed_until_us`: until when it admits nothing, if too many were preempted.
    """

    admitted: int = 0
    preempted: int = 0
    running: dict[str, float] = field(default_factory=dict)
    closed_until_us: int | None = None

    def admit(self, job: str, risk: float) -> None:
        """Take an admission at this risk."""
        self.admitted += 1
        self.running[job] = risk

    def end(self, job: str, *, preempted: bool) -> None:
        """Take the end of an admitted job."""
        del self.running[job]
        self.preempted += preempted

    def is_closed(self, at_us: int, sla: float) -> bool:
        """Return True while the host is closed. It opens again with a new account of its promises."""
        if self.closed_until_us is None and self.preempted > sla * self.admitted + _CLOSED_BEYOND:
            self.closed_until_us = at_us + _CLOSED_US
        if self.closed_until_us is not None and at_us >= self.closed_until_us:
            self.admitted = self.preempted = 0
            self.closed_until_us = None
        return self.closed_until_us is not None


@dataclass(frozen=True, slots=True)
class Offer:
    """A foreign job as its host sees it, where there is room for it.

    `spare`: the cores that stay free beside it; `ends`: of each other foreign job how long it still runs, in
    microseconds, and its cores; `held_us`: how long the job holds its cores; `sla`: the largest probability of
    preemption.
    """

    at_us: int
    held_us: int
    spare: int
    ends: Sequence[tuple[int, int]]
    sla: float


def admitted_risk(rule: HostRule, native: NativeUse, book: HostBook, offer: Offer) -> float | None:
    """Return the estimated probability that the job is preempted, if the rule admits it; else None."""
    if rule is HostRule.NONE:
        return 0.0
    if offer.at_us < WARM_UP_US:
        return None
    if rule is HostRule.TENURE and book.is_closed(offer.at_us, offer.sla):
        return None
    risk = risk_of(rule, native, offer)
    affords = _affords(book, risk, offer.sla) if rule is HostRule.TENURE else risk <= offer.sla
    return risk if affords else None


def risk_of(rule: HostRule, native: NativeUse, offer: Offer) -> float:
    """Return the rule's estimate of the probability that the job is preempted.

    By `tenure`, a past that holds the job's length n times tells of no risk below 1/n.
    """
    use, peaks = native.seen_until(offer.at_us)
    if rule is HostRule.LITERAL:
        return share_of_all(use, peaks, PathPart(0, cells_of(offer.held_us), offer.spare))
    path = path_beside(offer.spare, offer.ends, offer.held_us)
    lost = 1.0 - share_alive(use, peaks, path, np.ones(len(use), np.bool_))
    if rule is HostRule.TIMELINE or lost == 1.0:
        return lost
    least = max(lost, cells_of(offer.held_us) / len(use))
    weight = told_by_hour(use)
    if not weight:
        return least
    near = _same_hour(len(use), offer.at_us)
    risen = 1.0 - share_alive(use, peaks, path, near)
    reached = 1.0 - share_alive(np.full_like(use, native.now), peaks, path, near)
    return least + weight * (max(least, risen, reached) - least)


def _same_hour(count: int, at_us: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which of the first moments (N) have about the time of day of a time."""
    apart = (np.arange(count) * CELL_US - at_us) % DAY_US
    near: np.ndarray[tuple[int], np.dtype[np.bool_]] = np.minimum(apart, DAY_US - apart) <= _NEAR_US
    return near


def _affords(book: HostBook, risk: float, sla: float) -> bool:
    """Return True if a job of this risk may be admitted beside what was promised before.

    It may if its risk is within the share of the SLA that is used; later also if the same share of what all admissions
    earn pays for it, and for all that were preempted or run.
    """
    if risk <= _USED_SHARE * sla:
        return True
    used = book.preempted + sum(book.running.values()) + risk
    is_paid = used <= _USED_SHARE * sla * (book.admitted + 1)
    return is_paid and risk <= _MOST_RISK and book.admitted >= _POOLED_FROM
