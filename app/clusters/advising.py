"""Advice on checkpoints for a running spot instance, by the forecast in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.admission.quote import Quotes
from app.clusters.rules.advice import AdviceTerms, Hazards, Plan, fault_in, hazards_of, plan_checkpoints
from app.domain.errors import AdviceImpossible, AdviceTermsInvalid
from app.domain.flavors import check_flavor
from app.domain.times import HOUR_US, to_datetime
from app.domain.values import Forecast, Market
from app.engine.cloud import Cloud, Running
from app.engine.cluster import NEVER_US
from app.engine.outlook import Outlook
from app.engine.standing import slots_seen
from app.forecast.table import QuantileTable

_FIRST_US = HOUR_US // 6
"""The forecast's finest interval. What it says of less is no hazard."""
_POINTS = 48


@dataclass(frozen=True, slots=True)
class Advice:
    """The plan of an instance's checkpoints, with what it rests on. instance_id: None of one that is only thought of.

    estimate, bound and windows: of an eviction in the rest of the lifetime; None without evidence. survival: what the
    forecast says at the ends of the hazards, which the floor may exceed; None where it certifies nothing.
    """

    instance_id: str | None
    flavor: str
    deadline_us: int
    at_us: int
    slots: int
    estimate: float | None
    bound: float | None
    windows: float | None
    survival: list[float | None]
    hazards: Hazards
    plan: Plan


def advise(cloud: Cloud, table: QuantileTable, instance_id: str, terms: AdviceTerms, at_us: int) -> Advice:
    """Return the advice for a running spot instance.

    Raise AdviceImpossible if nothing is forecast for it, AdviceTermsInvalid for terms that make no sense for it.
    """
    running = _exposed(cloud, instance_id, at_us)
    _check(terms)
    subject = _Subject(instance_id, running.flavor, running.deadline_us)
    return _advice(cloud, table, subject, cloud.seen_by(instance_id, at_us), terms, at_us)


def advise_flavor(
    cloud: Cloud, table: QuantileTable, flavor: str, age_us: int, lifetime_us: int, terms: AdviceTerms, at_us: int
) -> Advice:
    """Return the advice for a spot instance of a flavor that had this age of its lifetime now.

    It sees the free slots, and those of the instances that started after it would have: at least one, its own. Raise
    FlavorNotFound, or AdviceTermsInvalid for terms that make no sense.
    """
    check_flavor(cloud.flavors, flavor)
    if age_us >= lifetime_us:
        raise AdviceTermsInvalid("age_s is not less than lifetime_s: no forecast speaks of what outlives its lifetime")
    _check(terms)
    younger = [one.seq for one in cloud.running.values() if one.started_us > at_us - age_us]
    born = min(younger) - 1 if younger else NEVER_US
    slots = max(int(slots_seen(cloud.cluster, cloud.flavors[flavor].demand, born, at_us)), 1)
    outlook = cloud.outlook(flavor, at_us, born)._replace(slots=slots)
    subject = _Subject(None, flavor, at_us + lifetime_us - age_us)
    return _advice(cloud, table, subject, (slots, outlook), terms, at_us)


class _Subject(NamedTuple):
    """The instance that an advice is about: its id, if it has one, its flavor, and the end of its lifetime."""

    instance_id: str | None
    flavor: str
    deadline_us: int


def _advice(
    cloud: Cloud,
    table: QuantileTable,
    subject: _Subject,
    seen: tuple[int, Outlook],
    terms: AdviceTerms,
    at_us: int,
) -> Advice:
    """Return the advice for an instance that sees these slots.

    The hazard is that of the forecast's curve for an instance of its age in its room, and at least 1 / (age of the
    cloud + rest of the lifetime): what no history shows may still happen.
    """
    slots, outlook = seen
    quotes: Quotes = table
    if cloud.policy.forecast is not Forecast.REPLAY:
        quotes = table.seen_from({subject.flavor: outlook})
    rest_us = subject.deadline_us - at_us
    ends_us = moments_ahead(rest_us)
    told = [quotes.probability(subject.flavor, slots, int(end_us)) for end_us in ends_us]
    shares = np.array([0.0 if one is None else one for one in told])
    hazards = hazards_of(ends_us, shares, 1.0 / (at_us - cloud.created_us + rest_us))
    return Advice(
        *subject,
        at_us,
        slots,
        quotes.probability(subject.flavor, slots, rest_us),
        quotes.bound(subject.flavor, slots, rest_us, cloud.policy.confidence),
        quotes.windows(subject.flavor, slots, rest_us),
        [None if one is None or one >= 1.0 else 1.0 - one for one in told],
        hazards,
        plan_checkpoints(hazards, terms, cloud.policy.grace_us),
    )


def _check(terms: AdviceTerms) -> None:
    if (fault := fault_in(terms)) is not None:
        raise AdviceTermsInvalid(fault)


def _exposed(cloud: Cloud, instance_id: str, at_us: int) -> Running:
    running = cloud.running.get(instance_id)
    if running is None:
        raise AdviceImpossible(f"instance {instance_id!r} does not run")
    if running.market is not Market.SPOT:
        raise AdviceImpossible(f"instance {instance_id!r} is on-demand, which is never evicted")
    if at_us >= running.deadline_us:
        ended = to_datetime(running.deadline_us).isoformat()
        raise AdviceImpossible(
            f"the lifetime of instance {instance_id!r} was over at {ended}: it may be evicted at any moment, "
            "so checkpoint it now, and ask for a longer lifetime in time"
        )
    return running


def moments_ahead(rest_us: int) -> NDArray[np.float64]:
    """Return the moments from now to the end of a lifetime at which a forecast is read."""
    first_us = min(_FIRST_US, rest_us)
    return np.geomspace(first_us, rest_us, _POINTS if rest_us > first_us else 1)
