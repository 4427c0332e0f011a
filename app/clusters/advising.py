"""Advice on checkpoints for a running spot instance, by the forecast in force."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.admission.quote import Quotes
from app.clusters.rules.advice import AdviceTerms, Hazards, Plan, hazards_of, plan_checkpoints
from app.domain.errors import AdviceImpossible
from app.domain.times import HOUR_US, to_datetime
from app.domain.values import Forecast, Market
from app.engine.cloud import Cloud, Running
from app.forecast.table import QuantileTable

_FIRST_US = HOUR_US // 6
"""The forecast's finest interval. What it says of less is no hazard."""
_POINTS = 48


@dataclass(frozen=True, slots=True)
class Advice:
    """The plan of an instance's checkpoints, with what it rests on.

    estimate, bound and windows: of an eviction in the rest of the lifetime; None without evidence. survival: what the
    forecast says at the ends of the hazards, which the floor may exceed; None where it certifies nothing.
    """

    running: Running
    at_us: int
    slots: int
    estimate: float | None
    bound: float | None
    windows: float | None
    survival: list[float | None]
    hazards: Hazards
    plan: Plan


def advise(cloud: Cloud, table: QuantileTable, instance_id: str, terms: AdviceTerms, at_us: int) -> Advice:
    """Return the advice for a running spot instance. Raise AdviceImpossible if nothing is forecast for it.

    The hazard is that of the forecast's curve for an instance of its age in its room, and at least 1 / (age of the
    cloud + rest of the lifetime): what no history shows may still happen.
    """
    running = _exposed(cloud, instance_id, at_us)
    slots, outlook = cloud.seen_by(instance_id, at_us)
    quotes: Quotes = table
    if cloud.policy.forecast is not Forecast.REPLAY:
        quotes = table.seen_from({running.flavor: outlook})
    rest_us = running.deadline_us - at_us
    ends_us = _ends(rest_us)
    told = [quotes.probability(running.flavor, slots, int(end_us)) for end_us in ends_us]
    shares = np.array([0.0 if one is None else one for one in told])
    hazards = hazards_of(ends_us, shares, 1.0 / (at_us - cloud.created_us + rest_us))
    return Advice(
        running,
        at_us,
        slots,
        quotes.probability(running.flavor, slots, rest_us),
        quotes.bound(running.flavor, slots, rest_us, cloud.policy.confidence),
        quotes.windows(running.flavor, slots, rest_us),
        [None if one is None or one >= 1.0 else 1.0 - one for one in told],
        hazards,
        plan_checkpoints(hazards, terms, cloud.policy.grace_us),
    )


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


def _ends(rest_us: int) -> NDArray[np.float64]:
    """Return the moments from now to the end of the lifetime at which the forecast is read."""
    first_us = min(_FIRST_US, rest_us)
    return np.geomspace(first_us, rest_us, _POINTS if rest_us > first_us else 1)
