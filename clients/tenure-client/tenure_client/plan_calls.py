"""Calls about plans, described like those in `calls`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tenure_client import endpoints
from tenure_client.calls import PAGE
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.plans import (
    JobMoveAnswer,
    PeerReliabilityAnswer,
    PlanAnswer,
    PlanOutcomeAnswer,
    PlanSummaryAnswer,
    VenueReliabilityAnswer,
)


def make_plan(
    id: str,  # noqa: A002 - the field's name
    jobs: Sequence[Mapping[str, Any]],
    *,
    venues: Sequence[str] | None = None,
    clouds: Sequence[Mapping[str, Any]] | None = None,
    peers: Sequence[Mapping[str, Any]] | None = None,
    rates: Sequence[Mapping[str, Any]] | None = None,
    probability: float | None = None,
    checkpoint: Mapping[str, Any] | None = None,
    launch_s: float | None = None,
    most_per_pool: int | None = None,
    zone_share: float | None = None,
    zone_risk: float | None = None,
    budget: float | None = None,
    at: datetime | None = None,
) -> Call[PlanAnswer]:
    """Plan jobs: where to run each, at which bid, and until when to wait. Raises Conflict if no plan does that."""
    body = {
        "id": id,
        "jobs": [*jobs],
        "venues": None if venues is None else [*venues],
        "clouds": None if clouds is None else [*clouds],
        "peers": None if peers is None else [*peers],
        "rates": None if rates is None else [*rates],
        "probability": probability,
        "checkpoint": checkpoint,
        "launch_s": launch_s,
        "most_per_pool": most_per_pool,
        "zone_share": zone_share,
        "zone_risk": zone_risk,
        "budget": budget,
        "at": at,
    }
    return endpoints.MAKE_PLAN.call(body=body)


def plans(*, limit: int = PAGE, marker: int | None = None) -> Listing[PlanSummaryAnswer]:
    """List plans, the newest first."""
    return Listing(endpoints.PLANS.call(query={"limit": limit, "marker": marker}), lambda page: page.plans)


def plan(plan: str) -> Call[PlanAnswer]:
    """Show a plan as it was told."""
    return endpoints.PLAN.call(plan=plan)


def next_move(
    plan: str, job: str, saved: float, *, available: Sequence[int] = (), at: datetime | None = None
) -> Call[JobMoveAnswer]:
    """Ask what a job that is on no machine does now: `available` are the numbers of ways that could be taken."""
    ways = ",".join(map(str, available)) or None
    return endpoints.NEXT_MOVE.call(query={"job": job, "saved": saved, "available": ways, "at": at}, plan=plan)


def tell_outcome(
    plan: str, job: str, cost: float, *, ended_at: datetime | None = None, lost: int = 0, on_demand: bool = False
) -> Call[PlanOutcomeAnswer]:
    """Tell what came of a job: when it ended (None: it failed), its cost, and how many machines were lost."""
    body = {"job": job, "ended_at": ended_at, "cost": cost, "lost": lost, "on_demand": on_demand}
    return endpoints.TELL_OUTCOME.call(body=body, plan=plan)


def venue_reliability(venue: str) -> Call[VenueReliabilityAnswer]:
    """Show how true plans were for the jobs that began in a venue."""
    return endpoints.VENUE_RELIABILITY.call(venue=venue)


def peer_reliability(peer: str) -> Call[PeerReliabilityAnswer]:
    """Show how true plans were for the jobs that began at a peer."""
    return endpoints.PEER_RELIABILITY.call(peer=peer)
