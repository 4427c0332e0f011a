"""Requests for plans: jobs, the places where they could run, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.domain.values import Resources
from app.venues.rules.assign import PlanLimits
from app.venues.rules.moldable import Parallelism
from app.venues.rules.planned import CheckpointTimes


@dataclass(frozen=True, slots=True)
class AskedJob:
    """A job. Its speed and memory are those of a machine type, or told; without either any machine does.

    A deadline is a time, or so long after that of the plan.
    """

    id: str
    work_us: int
    on_type: str | None
    compute_units: float | None
    memory_gib: float | None
    deadline_us: int | None
    deadline_after_us: int | None
    value: float | None
    penalty: float
    parallelism: Parallelism | None

    def planned_at(self, at_us: int) -> AskedJob:
        """Return the job with its deadline as a time, for a plan of this time."""
        return self if self.deadline_after_us is None else replace(self, deadline_us=at_us + self.deadline_after_us)


@dataclass(frozen=True, slots=True)
class AskedCloud:
    """A cloud of this service: instances of a flavor, at a price for each core and hour."""

    cloud: str
    flavor: str
    price_per_core_hour: float
    compute_units: float | None


@dataclass(frozen=True, slots=True)
class AskedPeer:
    """A cloud of another service that is a peer: instances of a size, at a price for each core and hour."""

    peer: str
    demand: Resources
    price_per_core_hour: float
    compute_units: float | None


@dataclass(frozen=True, slots=True)
class AskedRate:
    """Machines of which a provider tells the share that it takes back in 30 days, and no prices that move."""

    name: str
    zone: str
    price: float
    on_demand_price: float | None
    lost_in_a_month: float
    compute_units: float | None
    memory_gib: float | None


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request for a plan. `body` is the request as it is compared with a repeated one; `cap` holds for each pool."""

    id: str
    jobs: Sequence[AskedJob]
    venues: Sequence[str]
    clouds: Sequence[AskedCloud]
    peers: Sequence[AskedPeer]
    rates: Sequence[AskedRate]
    probability: float
    checkpoint: CheckpointTimes | None
    launch_us: int
    limits: PlanLimits
    cap: int | None
    at_us: int | None
    body: Mapping[str, Any]
