"""The backtest of deadlines on prices: jobs under bids that a safety net keeps in time, beside the thesis' RAMC-DC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.venues.rules.checkpoints import CheckpointRule
from app.workbench.venues.deadlinejobs import DeadlineJob, deadline_jobs
from app.workbench.venues.jobs import RecordedJob, place_jobs
from app.workbench.venues.leastbids import LeastBids
from app.workbench.venues.planneddeadlines import PlannedDeadlines
from app.workbench.venues.provisioning import Scheme
from app.workbench.venues.ramcdc import JOBS, fleet_ended, fleet_summary
from app.workbench.venues.setting import BacktestSetting

DEADLINE_LEVELS = (0.5, 0.75, 0.95, 1.0)
MOST_OVER_ON_DEMAND = 1.0
"""A job never pays more for an hour than on demand: there it would be safe for that price."""
_SEED = 6_000


def backtest_price_deadlines(
    setting: BacktestSetting,
    method: str,
    levels: Sequence[float],
    recorded: list[RecordedJob] | None,
    count: int | None = None,
) -> dict[str, Any]:
    """Return the share of deadlines met, cost over on-demand and launches by level; first the highest level's.

    By this service's method a job has checkpoints by the hazard, bids of at most the on-demand price, and goes on
    demand at the latest moment that is in time. Beside it stand the cells of the planner, job by job, whose first
    machines reach the level. By the thesis' it has hourly checkpoints (t_split 0).
    """
    jobs = deadline_jobs(setting, place_jobs(setting, recorded, count or JOBS, _SEED))
    bids = LeastBids(setting, levels)
    fixed = fleet_ended(setting, bids, Scheme(None, 0.0, CheckpointRule.NONE), jobs)[1]
    cells = dict[str, dict[str, float | int]]()
    for at, level in enumerate(levels):
        scheme = Scheme(at, 0.0, CheckpointRule.HOURLY)
        if method != "thesis":
            scheme = Scheme(
                at, 0.0, CheckpointRule.HAZARD, has_net=True, looks_again=True, most_over_on_demand=MOST_OVER_ON_DEMAND
            )
        found = fleet_summary(*fleet_ended(setting, bids, scheme, jobs), fixed)
        cells[f"S_lb {level:g}"] = {"met": 1.0 - found.pop("breaches"), **found}
        setting.progress(at + 1, len(levels))
    if method != "thesis":
        cells |= _planned(setting, jobs, levels, fixed)
    first = cells[f"S_lb {max(levels):g}"]
    return first | {"on_demand_cost": fixed, "cells": cells}


def _planned(
    setting: BacktestSetting, jobs: Sequence[DeadlineJob], levels: Sequence[float], on_demand: float
) -> dict[str, dict[str, float | int]]:
    """Return the cells of the planner: jobs that share nothing, each planned by what was known at its submission."""
    by_level = zip(levels, zip(*PlannedDeadlines(setting).ends(jobs, levels), strict=True), strict=True)
    return {
        f"planned {level:g}": {
            "met": sum(one.in_time for one in ends) / len(ends),
            "cost_over_on_demand": sum(one.paid for one in ends) / on_demand,
            "early_terminations": sum(one.lost for one in ends) / len(ends),
            "launches": sum(one.launches for one in ends) / len(ends),
            "count": len(ends),
        }
        for level, ends in by_level
    }
