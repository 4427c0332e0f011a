"""Unfinished and likely evictions of a cloud, read from its state for the pages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from app.domain.times import from_datetime
from app.engine.cloud import Cloud, Handover, Running

_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Leaving:
    """A hand-over, and whether its deadline has passed."""

    handover: Handover
    is_overdue: bool


@dataclass(frozen=True, slots=True)
class Endangered:
    """A running instance at risk, and whether it is past its declared lifetime."""

    instance: Running
    is_overrunning: bool


@dataclass(frozen=True, slots=True)
class NoticeOverview:
    """The first hand-overs by deadline, the first instances at risk in order of eviction, and the numbers of both."""

    leaving: Sequence[Leaving]
    leaving_count: int
    overdue_count: int
    at_risk: Sequence[Endangered]
    at_risk_count: int
    shows_leaving: bool
    shows_risk: bool


def notices_of(cloud: Cloud, now: datetime) -> NoticeOverview:
    """Return the cloud's notices. Each kind is shown if there are any or if the policy asks for it."""
    now_us, leaving = cloud.present_us(from_datetime(now)), cloud.known_handovers()
    at_risk_count = len(cloud.at_risk)
    return NoticeOverview(
        [Leaving(one, _is_overdue(one, now_us)) for one in leaving[:_SHOWN]],
        len(leaving),
        bisect_right(leaving, now_us, key=lambda one: one.deadline_us),
        [Endangered(one, now_us > one.deadline_us) for one in cloud.first_at_risk(_SHOWN, now_us)],
        at_risk_count,
        shows_leaving=bool(leaving or cloud.policy.grace_us),
        shows_risk=bool(at_risk_count or cloud.policy.risk_threshold is not None),
    )


def _is_overdue(handover: Handover, now_us: int) -> bool:
    return handover.is_overdue or handover.deadline_us <= now_us
