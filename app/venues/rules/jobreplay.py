"""A job's policy stepped through recorded prices: what it would have cost from each past start, and when it would end.

Machines with a price are revoked when it rises above their bid, and billed by the started hour, a last partial hour
that the provider ends being free. Machines of steady price are lost after a drawn lifetime and not taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, floor, inf, isnan
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.domain.times import HOUR_US
from app.engine.cluster import Bools, Ints
from app.engine.compiled import bare, compiled, inner
from app.venues.rules.history import Dollars
from app.venues.rules.jobsteps import LEAST_SHARE, WAITING, kept_after, next_move

COST, ENDED, SPOT, FIXED, LAUNCHES, LOST, FIRST_LIVED, STATE = range(8)
"""The columns of what is replayed: dollars, microseconds since the start, on spot machines and on demand, launches and
losses, if the first machine was kept until the job left it (-1: it had none), and the state."""
DONE, FAILED, HIDDEN = 1.0, 0.0, -1.0
"""States: `HIDDEN` if a gap or the end of the history hides what came of it."""
_MOST_SEGMENTS = 400
_MOST_LAUNCHES = 10_000
"""A replay with so many ends, hidden."""
MOST_OF_PLAN = 20_000_000
"""A plan's replays have so many steps at most, launches and waits. One takes a third of a microsecond.

100 jobs over 500 pools have .8 million launches, and up to 20 in a replay.
"""
T = TypeVar("T")


class ReplayedWays(NamedTuple):
    """The ways of a policy, w of them: prices one after the other, way i's from offsets[i] to offsets[i + 1].

    bids (w); steady (w): the price of an hour on ways without recorded prices, NaN on others; hourly (w + 1): if the
    way is billed by the started hour, the last one of the machine on demand.
    """

    at_us: Ints
    price: Dollars
    offsets: Ints
    ends_us: Ints
    bids: Dollars
    steady: Dollars
    hourly: Bools


class ReplayedStarts(NamedTuple):
    """Starts (n), the factor (n) on prices and (n, w) the lifetimes drawn for ways without recorded prices."""

    starts_us: Ints
    scales: Dollars
    drawn_us: Dollars


class JobTerms(NamedTuple):
    """The time to the deadline, the price of the machine on demand, and how often the job may be launched."""

    left_us: float
    on_demand: float
    most_launches: int


class TooManyLaunches(Exception):
    """Replays of a job launch it so often that its plan would take too long."""

    def __init__(self, job: str) -> None:
        super().__init__(job)
        self.job = job


class PlanStopped(Exception):
    """Nobody waits for the plan any more."""


class ReplayWork:
    """Replays the jobs of a plan, and counts their steps. Another thread may stop it."""

    def __init__(self) -> None:
        self._left = MOST_OF_PLAN
        self._is_stopped = False

    def stop(self) -> None:
        """Let the work end at its next look."""
        self._is_stopped = True

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Return the items with a look before each. Raises PlanStopped."""
        for item in items:
            self._look()
            yield item

    def _look(self) -> None:
        if self._is_stopped:
            raise PlanStopped

    def replayed(
        self, job: str, starts: ReplayedStarts, pools: ReplayedWays, terms: JobTerms, ways: Dollars, fixed: Dollars
    ) -> Dollars:
        """Return (n, 8) what came of the job from each start. Raises TooManyLaunches, PlanStopped."""
        self._look()
        found, self._left = replayed_within(starts, pools, terms, ways, fixed, self._left)
        if self._left < 0 or found[:, LAUNCHES].max(initial=0.0) >= _MOST_LAUNCHES:
            raise TooManyLaunches(job)
        return found


def replayed(starts: ReplayedStarts, pools: ReplayedWays, terms: JobTerms, ways: Dollars, fixed: Dollars) -> Dollars:
    """Return (n, 8) what came of the job from each start."""
    return replayed_within(starts, pools, terms, ways, fixed, MOST_OF_PLAN)[0]


@compiled
def replayed_within(
    starts: ReplayedStarts, pools: ReplayedWays, terms: JobTerms, ways: Dollars, fixed: Dollars, most_steps: int
) -> tuple[Dollars, int]:
    """Return (n, 8) what came of the job from each start, and how many steps are left: below 0 if it needs more."""
    found = np.zeros((starts.starts_us.shape[0], 8))
    segments, left = np.zeros((1, 4)), most_steps
    for start in range(found.shape[0]):
        left -= _replay_one(start, starts, pools, terms, ways, fixed, found[start], segments, left)
        if left < 0:
            break
    return found, left


def replayed_segments(
    start: int, starts: ReplayedStarts, pools: ReplayedWays, terms: JobTerms, ways: Dollars, fixed: Dollars
) -> Dollars:
    """Return (k, 4) the stretches of a start: way, begin and end since the start, and 1 if the machine was lost."""
    return replayed_with_stretches(start, starts, pools, terms, ways, fixed)[1]


@compiled
def replayed_with_stretches(
    start: int, starts: ReplayedStarts, pools: ReplayedWays, terms: JobTerms, ways: Dollars, fixed: Dollars
) -> tuple[Dollars, Dollars]:
    """Return (8) what came of the job from a start, and (k, 4) its first stretches as in `replayed_segments`."""
    found, segments = np.zeros(8), np.full((_MOST_SEGMENTS, 4), np.nan)
    _replay_one(start, starts, pools, terms, ways, fixed, found, segments, MOST_OF_PLAN)
    count = int((~np.isnan(segments[:, 0])).sum())
    return found, segments[:count]


@inner
def _replay_one(
    start: int,
    starts: ReplayedStarts,
    pools: ReplayedWays,
    terms: JobTerms,
    ways: Dollars,
    fixed: Dollars,
    found: NDArray[np.float64],
    segments: Dollars,
    most_steps: int,
) -> int:
    begin_us, saved, scale = float(starts.starts_us[start]), 0.0, starts.scales[start]
    now_us, end_us = begin_us, begin_us + terms.left_us
    lost, available = np.zeros(ways.shape[0], np.bool_), np.zeros(ways.shape[0], np.bool_)
    found[FIRST_LIVED], found[STATE], steps = -1.0, HIDDEN, 0
    while saved < 1.0 - LEAST_SHARE:
        steps += 1
        if terms.most_launches and found[LAUNCHES] >= terms.most_launches:
            found[STATE], found[ENDED] = FAILED, now_us - begin_us
            return steps
        changes_us, is_hidden = _look(available, pools, lost, now_us, end_us, scale)
        if is_hidden or found[LAUNCHES] >= _MOST_LAUNCHES or steps > most_steps:
            return steps
        way, length_us, kept = next_move(end_us - now_us, saved, available, ways, fixed)
        if way == WAITING:
            now_us = max(min(changes_us, now_us + length_us), np.nextafter(now_us, inf))
            continue
        until_us, is_lost = now_us + length_us, False
        if way >= 0:
            until_us, is_lost, is_hidden = _lost_at(pools, way, now_us, until_us, scale, starts.drawn_us[start, way])
        if is_hidden:
            return steps
        _note(segments, int(found[LAUNCHES]), way, now_us - begin_us, until_us - begin_us, is_lost)
        _account(found, pools, terms, way, now_us, until_us, is_lost, scale)
        if is_lost:
            kept = kept_after(until_us - now_us, end_us - now_us, saved, ways[way], fixed)
            lost[way] = not isnan(pools.steady[way])
        saved, now_us = kept, until_us
    found[STATE], found[ENDED] = DONE, now_us - begin_us
    return steps


@bare
def _note(segments: Dollars, at: int, way: int, from_us: float, to_us: float, is_lost: bool) -> None:  # noqa: FBT001
    """Note a stretch on a machine, if it is one of the first."""
    if at < segments.shape[0]:
        segments[at] = (float(way), from_us, to_us, 1.0 if is_lost else 0.0)


@bare
def _step_of(pools: ReplayedWays, way: int, at_us: float) -> int:
    """Return the step of a way's price at a time, -1 before its first."""
    low, high = pools.offsets[way], pools.offsets[way + 1]
    while low < high:
        middle = (low + high) // 2
        if pools.at_us[middle] <= at_us:
            low = middle + 1
        else:
            high = middle
    return int(low) - 1


@bare
def _look(
    available: Bools, pools: ReplayedWays, lost: Bools, now_us: float, end_us: float, scale: float
) -> tuple[float, bool]:
    """Note which ways could be taken. Return when the first of the others can, and if the price of one is not known."""
    changes_us = inf
    for way in range(lost.shape[0]):
        if not isnan(pools.steady[way]):
            available[way] = not lost[way]
            continue
        step = _step_of(pools, way, now_us)
        if step < pools.offsets[way] or now_us >= pools.ends_us[way] or isnan(pools.price[step]):
            return changes_us, True
        available[way] = pools.price[step] * scale <= pools.bids[way]
        if not available[way]:
            changes_us = min(changes_us, _fit_from(pools, way, step, min(changes_us, end_us), scale))
    return changes_us, False


@bare
def _fit_from(pools: ReplayedWays, way: int, step: int, until_us: float, scale: float) -> float:
    """Return when a price is next up to the bid or unknown, or a time from `until_us` on."""
    changes_us = _step_end(pools, way, step)
    while (
        changes_us < until_us and step + 1 < pools.offsets[way + 1] and pools.price[step + 1] * scale > pools.bids[way]
    ):
        step += 1
        changes_us = _step_end(pools, way, step)
    return changes_us


@bare
def _step_end(pools: ReplayedWays, way: int, step: int) -> float:
    return float(pools.at_us[step + 1]) if step + 1 < pools.offsets[way + 1] else float(pools.ends_us[way])


@bare
def _lost_at(
    pools: ReplayedWays, way: int, now_us: float, until_us: float, scale: float, drawn_us: float
) -> tuple[float, bool, bool]:
    """Return when a machine ends, if it is lost, and if that is not known."""
    if not isnan(pools.steady[way]):
        return min(until_us, now_us + drawn_us), now_us + drawn_us < until_us, False
    step = _step_of(pools, way, now_us)
    while _step_end(pools, way, step) < until_us:
        step += 1
        if step >= pools.offsets[way + 1] or isnan(pools.price[step]):
            return until_us, False, True
        if pools.price[step] * scale > pools.bids[way]:
            return float(pools.at_us[step]), True, False
    return until_us, False, False


@bare
def _account(
    found: NDArray[np.float64],
    pools: ReplayedWays,
    terms: JobTerms,
    way: int,
    now_us: float,
    until_us: float,
    is_lost: bool,  # noqa: FBT001 - compiled functions take no names
    scale: float,
) -> None:
    """Add what a stretch on a machine costs, and count it."""
    used_us, is_hourly = until_us - now_us, pools.hourly[way] if way >= 0 else pools.hourly[-1]
    hours = used_us / HOUR_US
    if is_hourly:
        hours = floor(hours) if is_lost else ceil(hours - 1e-9)
    if way < 0:
        found[FIXED] += used_us
        found[COST] += hours * terms.on_demand
    else:
        found[SPOT] += used_us
        found[COST] += _spot_cost(pools, way, now_us, hours, scale)
        if not found[LAUNCHES]:
            found[FIRST_LIVED] = 0.0 if is_lost else 1.0
    found[LAUNCHES] += 1.0
    found[LOST] += is_lost


@bare
def _spot_cost(pools: ReplayedWays, way: int, now_us: float, hours: float, scale: float) -> float:
    """Return the cost of some hours, each at the price at its start."""
    if not isnan(pools.steady[way]):
        return float(hours * pools.steady[way])
    step, cost = _step_of(pools, way, now_us), 0.0
    for hour in range(int(hours)):
        while _step_end(pools, way, step) <= now_us + hour * HOUR_US and step + 1 < pools.offsets[way + 1]:
            step += 1
        cost += pools.price[step] * scale
    return cost
