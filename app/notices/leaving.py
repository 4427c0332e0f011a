"""Unfinished and likely evictions of a cloud, read from its state for the pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nlargest

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
    now_us = cloud.present_us(from_datetime(now))
    leaving = [Leaving(one, one.is_overdue or one.deadline_us <= now_us) for one in cloud.known_handovers()]
    at_risk = [Endangered(one, now_us > one.deadline_us) for name in cloud.at_risk if (one := cloud.running.get(name))]
    return NoticeOverview(
        leaving[:_SHOWN],
        len(leaving),
        sum(one.is_overdue for one in leaving),
        nlargest(_SHOWN, at_risk, key=lambda one: (one.is_overrunning, one.instance.seq)),
        len(at_risk),
        shows_leaving=bool(leaving or cloud.policy.grace_us),
        shows_risk=bool(at_risk or cloud.policy.risk_threshold is not None),
    )
