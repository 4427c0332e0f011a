"""The state machine of one job with a deadline: run on a machine that may be lost, wait for one, or go on demand.

The same compiled rule, `next_move`, is told to the user and stepped by the replay: what was simulated is what is
advised. Work counts in shares of the job, from 0 to 1, because a job takes another time on each type of machine. What
is in a checkpoint is kept. The *net* goes on demand at the latest moment from which the deadline can still be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import floor, inf, isinf
from typing import NamedTuple

import numpy as np

from app.engine.cluster import Bools
from app.engine.compiled import bare, compiled
from app.venues.rules.history import Dollars

WAITING, ON_DEMAND_MACHINE = -1, -2
"""Ways beside those of a policy: no machine, and one on demand."""
RUN, EVERY, PAUSE, READ, LAUNCH = range(5)
"""The columns of a way's times, in microseconds; of the on-demand machine RUN, READ, LAUNCH count, and the margin."""
MARGIN = PAUSE
NEVER_US = 1e18
LEAST_SHARE, LEAST_US = 1e-9, 1.0
"""Less work or time than this is none: what rounding leaves."""


class JobMoveKind(IntEnum):
    """The moves of a job."""

    WAIT = 0
    RUN = 1
    ON_DEMAND = 2


class WayTimes(NamedTuple):
    """Microseconds: the whole job's run time on a machine, the work between two checkpoints, how long one is written
    and read, and how long a launch takes. A job without checkpoints takes for ever to write one.
    """

    run_us: float
    every_us: float = inf
    pause_us: float = NEVER_US
    read_us: float = 0.0
    launch_us: float = 0.0


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """The ways to run a job, the best first; the machine on demand (its run, read and launch times) and a margin."""

    ways: tuple[WayTimes, ...]
    on_demand: WayTimes
    margin_us: float = 0.0

    @property
    def columns(self) -> tuple[Dollars, Dollars]:
        """Return the times of the ways (n, 5), and of the machine on demand (5)."""
        fixed = self.on_demand._replace(pause_us=self.margin_us)
        return np.array(self.ways, np.float64).reshape(-1, 5), np.array(fixed, np.float64)


class JobMove(NamedTuple):
    """A thing to do now, and the longest time for it. `saved`: the share of the work that is kept then."""

    kind: JobMoveKind
    way: int
    at_most_us: float
    saved: float


def advised_move(policy: JobPolicy, left_us: float, saved: float, available: Sequence[bool]) -> JobMove:
    """Return the move of a job that is on no machine.

    left_us: the time to the deadline; saved: the share of the work that is in a checkpoint; available: which of the
    policy's ways could be taken now.
    """
    ways, fixed = policy.columns
    way, length_us, kept = next_move(left_us, saved, np.array(available, np.bool_), ways, fixed)
    kinds = {WAITING: JobMoveKind.WAIT, ON_DEMAND_MACHINE: JobMoveKind.ON_DEMAND}
    return JobMove(kinds.get(way, JobMoveKind.RUN), max(way, -1), length_us, kept)


@compiled
def next_move(
    left_us: float, saved: float, available: Bools, ways: Dollars, fixed: Dollars
) -> tuple[int, float, float]:
    """Return the way, for how long at most, and what is kept then.

    1. The first way that is available, and on which the net lets the job end or keep more than it has. 2. Else wait, as
    long as the net lets. 3. Else go on demand.
    """
    for way in range(ways.shape[0]):
        if available[way]:
            length_us, kept = longest_run(left_us, saved, ways[way], fixed)
            if kept > saved + LEAST_SHARE:
                return way, length_us, kept
    needs_us = time_on_demand(saved, fixed)
    slack_us = left_us - needs_us - fixed[MARGIN]
    if ways.shape[0] and slack_us > LEAST_US:
        return WAITING, slack_us, saved
    return ON_DEMAND_MACHINE, needs_us, 1.0


@bare
def time_on_demand(saved: float, fixed: Dollars) -> float:
    """Return how long the rest of a job takes on demand, with the launch and with reading its checkpoint."""
    return float(fixed[LAUNCH] + (1.0 - saved) * fixed[RUN] + (fixed[READ] if saved > 0.0 else 0.0))


@bare
def overhead(saved: float, way: Dollars) -> float:
    """Return the time from a launch to the first work."""
    return float(way[LAUNCH] + (way[READ] if saved > 0.0 else 0.0))


@bare
def longest_run(left_us: float, saved: float, way: Dollars, fixed: Dollars) -> tuple[float, float]:
    """Return how long a job may run on a machine from its launch, and what is kept then: 1 if it is done."""
    begin_us = overhead(saved, way)
    work_us = (1.0 - saved) * way[RUN]
    rest_us = (1.0 - saved) * fixed[RUN]
    room_us = left_us - begin_us - rest_us - fixed[LAUNCH] - fixed[MARGIN]
    length_us, _, kept_us, is_cut = guarded(
        work_us, way[EVERY], way[PAUSE], room_us, fixed[READ], rest_us / work_us, saved > 0.0
    )
    return begin_us + length_us, saved + kept_us / way[RUN] if is_cut else 1.0


@compiled
def guarded(
    work_us: float,
    every_us: float,
    pause_us: float,
    room_us: float,
    read_us: float,
    speed: float,
    is_saved: bool,  # noqa: FBT001
) -> tuple[float, int, float, bool]:
    """Return `checkpoints.guarded_run` of a periodic run: length, regular checkpoints, work kept at its end, if cut."""
    count = 0 if isinf(every_us) else floor(work_us / every_us)
    at = _in_time(count, every_us, pause_us, room_us, read_us, speed, is_saved)
    done_us, saved_us = (at * (every_us + pause_us), at * every_us) if at else (0.0, 0.0)
    latest_us = room_us + saved_us * speed - (read_us if is_saved or saved_us > 0.0 else 0.0)
    whole_us = work_us + count * pause_us
    if at == count and not whole_us > latest_us:  # NaN where no machine is on demand: nothing is late
        return whole_us, count, work_us, False
    if done_us + work_us - saved_us <= latest_us:
        return done_us + work_us - saved_us, at, work_us, False
    worked_us = latest_us - pause_us - done_us
    kept_us = saved_us + worked_us
    is_worth_it = worked_us > 2 * pause_us and latest_us <= room_us + kept_us * speed - read_us
    if worked_us <= 0.0 or not is_worth_it:
        return done_us, at, saved_us, True
    return latest_us, at, kept_us, True


@bare
def _in_time(
    count: int,
    every_us: float,
    pause_us: float,
    room_us: float,
    read_us: float,
    speed: float,
    is_saved: bool,  # noqa: FBT001
) -> int:
    """Return how many of a run's regular checkpoints are written before one that the net does not wait for.

    From the second on, each next one comes later against its latest moment by the same time, or each comes earlier. So
    the first that is late is found by halving, and a run of a million checkpoints takes no longer than one of twenty.
    """
    for at in range(min(2, count)):
        if _is_late(at, every_us, pause_us, room_us, read_us, speed, is_saved):
            return at
    low, high = min(2, count), count
    while low < high:
        middle = (low + high) // 2
        if _is_late(middle, every_us, pause_us, room_us, read_us, speed, is_saved):
            high = middle
        else:
            low = middle + 1
    return low


@bare
def _is_late(
    at: int,
    every_us: float,
    pause_us: float,
    room_us: float,
    read_us: float,
    speed: float,
    is_saved: bool,  # noqa: FBT001
) -> bool:
    """Return True if the checkpoint after `at` others ends too late for the net, with their work saved or with its."""
    ends_us, saved_us = (at + 1) * (every_us + pause_us), at * every_us
    latest_us = room_us + saved_us * speed - (read_us if is_saved or saved_us > 0.0 else 0.0)
    return ends_us > latest_us or ends_us > room_us + (at + 1) * every_us * speed - read_us


@bare
def kept_after(ran_us: float, left_us: float, saved: float, way: Dollars, fixed: Dollars) -> float:
    """Return what is kept of a job whose machine is lost so long after its launch, `left_us` from the launch on."""
    begin_us = overhead(saved, way)
    work_us = (1.0 - saved) * way[RUN]
    rest_us = (1.0 - saved) * fixed[RUN]
    room_us = left_us - begin_us - rest_us - fixed[LAUNCH] - fixed[MARGIN]
    _, count, _, _ = guarded(work_us, way[EVERY], way[PAUSE], room_us, fixed[READ], rest_us / work_us, saved > 0.0)
    if not count or ran_us <= begin_us:
        return saved
    finished = min(floor((ran_us - begin_us) / (way[EVERY] + way[PAUSE])), count)
    return float(saved + finished * way[EVERY] / way[RUN])
