"""The rules by which a host admits a foreign job or refuses it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from app.domain.times import DAY_US
from app.federation.rules.increase import NativeUse, PathPart, cells_of, path_beside, share_alive, share_of_all

WARM_UP_US = 2 * DAY_US
"""A host that knows less of its past admits no foreign job, unless by the rule `none`."""


class HostRule(StrEnum):
    """`none` admits what fits; `literal` is EXFed's first check; `timeline` follows the room beside the job."""

    NONE = "none"
    LITERAL = "literal"
    TIMELINE = "timeline"


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


def admits(rule: HostRule, native: NativeUse, offer: Offer) -> bool:
    """Return True if the rule admits the job."""
    if rule is HostRule.NONE:
        return True
    return offer.at_us >= WARM_UP_US and risk(rule, native, offer) <= offer.sla


def risk(rule: HostRule, native: NativeUse, offer: Offer) -> float:
    """Return the rule's estimate of the probability that the job is preempted."""
    use, peaks = native.seen_until(offer.at_us)
    if rule is HostRule.LITERAL:
        return share_of_all(use, peaks, PathPart(0, cells_of(offer.held_us), offer.spare))
    path = path_beside(offer.spare, offer.ends, offer.held_us)
    return 1.0 - share_alive(use, peaks, path, np.ones(len(use), np.bool_))
