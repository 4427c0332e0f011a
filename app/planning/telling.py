"""A plan as it is told and stored: JSON values, in the fields of the HTTP interface."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import isinf, isnan
from typing import Any

import numpy as np

from app.domain.times import SECOND_US, rfc3339
from app.planning.asking import PlanRequest
from app.planning.places import KnownPlaces, Place, PlaceKind
from app.venues.rules.history import Dollars
from app.venues.rules.jobreplay import COST, ENDED, FIXED, LAUNCHES
from app.venues.rules.jobsteps import NEVER_US, JobPolicy, WayTimes
from app.venues.rules.planmaking import JobPlan, MadePlan, share_done
from app.venues.rules.planned import FIXED_POOL, NO_POOL, PlanOption

Content = Mapping[str, Any]
_MOST_LEFT_OUT = 100
_SHARES = tuple(range(0, 101, 5))


def plan_text(
    request: PlanRequest, at_us: int, known: KnownPlaces, made: MadePlan, ratios: Mapping[tuple[PlaceKind, str], float]
) -> str:
    """Return a plan as it is told, as JSON. `ratios`: what was paid over what was said, by place.

    Each job is written by itself: a thread that does this lets others run in between.
    """
    jobs = [_job(one, known.places, ratios) for one in made.jobs]
    whole = json.dumps(_whole(request, at_us, known, made, jobs))
    return f'{whole[:-1]}, "jobs": [{", ".join(map(json.dumps, jobs))}]}}'


def _whole(
    request: PlanRequest, at_us: int, known: KnownPlaces, made: MadePlan, jobs: Sequence[Content]
) -> dict[str, Any]:
    """Return what is told of all jobs together."""
    fixed = [job["on_demand"]["cost"] for job in jobs if job["on_demand"] is not None]
    return {
        "id": request.id,
        "as_of": rfc3339(at_us),
        "currency": known.currency,
        "probability": request.probability,
        "expected_cost": sum(job["expected_cost"] for job in jobs),
        "calibrated_cost": sum(job["calibrated_cost"] for job in jobs),
        "on_demand_cost": sum(fixed) if len(fixed) == len(jobs) else None,
        "cost": _distribution(made.costs),
        "cost_quantiles": [float(np.quantile(made.costs, one / 100)) for one in _SHARES] if len(made.costs) else [],
        "choice": {"method": made.method.value, "gap": made.gap},
        "pool_count": len(known.places),
        "left_out_count": len(known.left_out),
        "left_out": [asdict(one) for one in known.left_out[:_MOST_LEFT_OUT]],
        "venues": [
            {"name": one.name, "as_of": rfc3339(one.as_of_us), "is_stale": one.is_stale} for one in known.venues
        ],
    }


def policy_of(job: Content) -> JobPolicy:
    """Return the policy that a plan's job was told: what is stepped is what was advised."""
    ways = [
        WayTimes(
            way["run_s"] * SECOND_US,
            np.inf if way["checkpoint_every_s"] is None else way["checkpoint_every_s"] * SECOND_US,
            NEVER_US if way["write_s"] is None else way["write_s"] * SECOND_US,
            way["read_s"] * SECOND_US,
            way["launch_s"] * SECOND_US,
        )
        for way in job["ways"]
    ]
    fixed = job["on_demand"]
    read_us, launch_us = fixed["read_s"] * SECOND_US, fixed["launch_s"] * SECOND_US
    return JobPolicy(tuple(ways), WayTimes(fixed["run_s"] * SECOND_US, read_us=read_us, launch_us=launch_us))


def _job(plan: JobPlan, places: Sequence[Place], ratios: Mapping[tuple[PlaceKind, str], float]) -> dict[str, Any]:
    job, chosen, found = plan.job, plan.chosen, plan.replays.found
    begins = (places[chosen.pool].of, places[chosen.pool].place) if chosen.pool >= 0 else None
    runs = {FIXED_POOL: "on_demand", NO_POOL: "not_at_all"}.get(chosen.pool, "spot")
    return {
        "id": job.id,
        "deadline": None if job.deadline_us is None else rfc3339(job.deadline_us),
        "runs": runs,
        "survival": chosen.survival,
        "ways": [_way(one, places[one.pool]) for one in plan.ways],
        "on_demand": _fixed(plan, places),
        "expected_cost": chosen.cost,
        "calibrated_cost": chosen.cost * (1.0 if begins is None else ratios.get(begins, 1.0)),
        "cost": _distribution(np.sort(found[:, COST])),
        "ends_s": _distribution(np.sort(found[:, ENDED]) / SECOND_US),
        "in_time": _share(share_done(plan)),
        "all_spot": _share(float((found[:, FIXED] == 0.0).mean())) if len(found) else None,
        "launches": float(found[:, LAUNCHES].mean()) if len(found) else None,
        "replay_count": len(found),
        "typical": _stretches(plan.typical),
        "bad": _stretches(plan.bad),
    }


def _share(value: float) -> float | None:
    return None if isnan(value) else value


def _way(option: PlanOption, place: Place) -> dict[str, Any]:
    times = option.times
    return {
        "source": place.pool.source.value,
        "place": place.place,
        "zone": place.zone,
        "instance_type": place.kind,
        "product": place.product,
        "is_stale": place.is_stale,
        "price": place.pool.price,
        "bid": None if isinf(option.bid) else option.bid,
        "survival": option.survival,
        "at_least": option.at_least,
        "windows": float(option.windows),
        "expected_cost": option.cost,
        "run_s": times.run_us / SECOND_US,
        "checkpoint_every_s": None if isinf(times.every_us) else times.every_us / SECOND_US,
        "write_s": None if times.pause_us >= NEVER_US else times.pause_us / SECOND_US,
        "read_s": times.read_us / SECOND_US,
        "launch_s": times.launch_us / SECOND_US,
    }


def _fixed(plan: JobPlan, places: Sequence[Place]) -> dict[str, Any] | None:
    if plan.fixed is None:
        return None
    place, times = places[plan.fixed.pool], plan.fixed.times
    leave_us = None
    if plan.job.deadline_us is not None:
        leave_us = plan.job.deadline_us - round(times.run_us + times.launch_us)
    return {
        "place": place.place,
        "instance_type": place.kind,
        "price": plan.fixed.price,
        "cost": plan.fixed.cost,
        "run_s": times.run_us / SECOND_US,
        "read_s": times.read_us / SECOND_US,
        "launch_s": times.launch_us / SECOND_US,
        "leave_at": None if leave_us is None else rfc3339(leave_us),
    }


def _distribution(values: Dollars) -> dict[str, float] | None:
    """Return the mean and quantiles of values that rise; None of none."""
    if not len(values):
        return None
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95]).tolist()
    return {"mean": float(values.mean()), "p5": low, "p50": middle, "p95": high}


def _stretches(segments: Dollars) -> list[dict[str, Any]]:
    """Return the stretches of a replay: the number of the way, or None on demand, and seconds since the start."""
    return [
        {
            "way": int(way) if way >= 0 else None,
            "from_s": begin / SECOND_US,
            "to_s": end / SECOND_US,
            "lost": bool(lost),
        }
        for way, begin, end, lost in segments.tolist()
    ]
