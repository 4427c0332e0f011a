"""The backtest of deadlines: jobs on machines that come and go, in nine zones or in one, with a safety net."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from app.domain.progress import Progress
from app.venues.rules.policy import DeadlinePace, DeadlineState, next_place, step_to
from app.workbench.venues.availability import Availability
from app.workbench.venues.ratedeadlines import RatedEnd, RatedTerms, rated_policy, rated_run

ON_DEMAND_OVER_SPOT = 3.06
"""The prices of a V100 machine in 2022 and 2023: 3.06 and about 1 dollar an hour."""
CHANGEOVER_H = 0.1
CASES = ((12.0, 1.25), (12.0, 1.5), (48.0, 1.25), (48.0, 1.5))
STARTS = 300
_WEEK_H = 168.0
_RANKED_EVERY = 36
"""Zones are ranked anew after this many ticks."""
_PACES = {"one zone, safety net": DeadlinePace.SAFETY_NET, "one zone, uniform progress": DeadlinePace.UNIFORM_PROGRESS}

Ranking = Callable[[int, Sequence[int]], Sequence[int]]


BANDS = "bands alone"
WAYS = (
    "survival", "random", "fixed order", "one zone", "one zone, safety net", "one zone, uniform progress", BANDS,
)  # fmt: skip
"""In all zones by three rankings; in one zone with the pace that was cheaper before, and with either pace; in all zones
as the service plans it if it knows nothing but a provider's bands.
"""


def backtest_deadlines(records: Availability, seed: int, count: int, progress: Progress) -> dict[str, Any]:
    """Return the share of deadlines met, cost over on-demand and launches in all zones, and by case and way."""
    cells: dict[str, dict[str, float]] = {}
    steps = [(case, way) for case in CASES for way in WAYS]
    for number, (case, way) in enumerate(steps, 1):
        name = f"{case[0]:g} h, D = {case[1]:g} C, {way}"
        cells[name] = _summary(_runs(records, case, way, seed, count))
        progress(number, len(steps))
    first = [cell for name, cell in cells.items() if name.endswith("survival")]
    return {key: float(np.mean([cell[key] for cell in first])) for key in first[0]} | {"cells": cells}


def _runs(
    records: Availability, case: tuple[float, float], way: str, seed: int, count: int
) -> Sequence[DeadlineState | RatedEnd]:
    draw = np.random.default_rng([seed, 5_000])
    length = records.had.shape[1]
    need = int(case[0] * case[1] * 3600 / records.tick_s) + 1
    starts = np.sort(draw.integers(length // 2, max(length - need, length // 2 + 1), count)).tolist()
    everywhere = range(len(records.zones))
    if way == BANDS:
        terms = RatedTerms(case, ON_DEMAND_OVER_SPOT, CHANGEOVER_H)
        policy, zones = rated_policy(records, terms)
        return [rated_run(records, start, terms, policy, zones) for start in starts]
    if not way.startswith("one zone"):
        ranking = {"survival": survival_ranking(records), "random": _random_ranking(draw)}.get(way, lambda _, had: had)
        return [run_job(records, start, case, ranking, DeadlinePace.SAFETY_NET, everywhere) for start in starts]
    found = []
    for zone in everywhere:
        pace = _PACES[way] if way in _PACES else cheaper_pace(records, zone, case, draw)
        found += [
            run_job(records, one, case, lambda _, had: had, pace, [zone]) for one in starts[:: len(records.zones)]
        ]
    return found


def run_job(
    records: Availability,
    start: int,
    case: tuple[float, float],
    ranking: Ranking,
    pace: DeadlinePace,
    zones: Sequence[int],
) -> DeadlineState:
    """Return the state in which a job ends that begins at a tick; the case is its work in hours, and time over work."""
    whole = case[0], case[0] * case[1]
    step = records.tick_s / 3600, CHANGEOVER_H
    state, tick = DeadlineState(*whole), start
    while not state.is_done:
        had = [zone for zone in zones if tick < records.had.shape[1] and records.had[zone, tick]]
        ranked = had if state.place in had else ranking(tick, had)
        state = step_to(state, next_place(state, ranked, whole, pace, step), step)
        tick += 1
    return state


def survival_ranking(records: Availability) -> Ranking:
    """Return the ranking by how long, in the week before, machines in a zone lasted on from where they were."""
    week = int(_WEEK_H * 3600 / records.tick_s)
    known: dict[int, list[float]] = {}

    def ranked(tick: int, had: Sequence[int]) -> Sequence[int]:
        until = tick // _RANKED_EVERY * _RANKED_EVERY
        if until not in known:
            past = records.had[:, max(until - week, 0) : until]
            known[until] = [mean_rest(row.tolist()) for row in past]
        return sorted(had, key=lambda zone: (-known[until][zone], zone))

    return ranked


def mean_rest(had: Sequence[bool]) -> float:
    """Return over the ticks with machines the mean number of ticks for which there went on to be some."""
    rest, whole, count = 0, 0, 0
    for one in reversed(had):
        rest = rest + 1 if one else 0
        whole, count = whole + rest, count + bool(one)
    return whole / count if count else 0.0


def _random_ranking(draw: np.random.Generator) -> Ranking:
    return lambda _, had: draw.permutation(had).tolist()


def cheaper_pace(
    records: Availability, zone: int, case: tuple[float, float], draw: np.random.Generator
) -> DeadlinePace:
    """Return the pace that was cheaper for this zone in the first half of the record."""
    half = records.had.shape[1] // 2
    need = int(case[0] * case[1] * 3600 / records.tick_s) + 1
    starts = draw.integers(0, max(half - need, 1), 60).tolist()

    def cost(pace: DeadlinePace) -> float:
        ends = [run_job(records, start, case, lambda _, had: had, pace, [zone]) for start in starts]
        return sum(end.spot_h + ON_DEMAND_OVER_SPOT * end.fixed_h for end in ends)

    return min(DeadlinePace, key=cost)


def _summary(ends: Sequence[DeadlineState | RatedEnd]) -> dict[str, float]:
    work_h = [end.spot_h + end.fixed_h - CHANGEOVER_H * end.launches for end in ends]
    paid = [end.spot_h + ON_DEMAND_OVER_SPOT * end.fixed_h for end in ends]
    return {
        "met": float(np.mean([end.left_h >= -1e-6 for end in ends])),
        "cost_over_on_demand": sum(paid) / (ON_DEMAND_OVER_SPOT * sum(work_h)),
        "launches": float(np.mean([end.launches for end in ends])),
        "on_demand_share": sum(end.fixed_h for end in ends) / sum(work_h),
    }
