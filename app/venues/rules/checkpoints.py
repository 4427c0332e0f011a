"""Checkpoints of a job: when its memory is written away, what that costs in time, and what a revocation leaves of it.

While a checkpoint is written the job stands still. After a revocation it goes on from the last checkpoint that was
finished. A job's memory is written and read at the rates that the thesis measured (chapter 5).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from math import floor, inf, sqrt

from app.domain.times import HOUR_US, SECOND_US

LEAST_EVERY_US = 60.0 * SECOND_US
"""Checkpoints that cost no time come after so much work each."""

_WRITTEN_PER_S, _READ_PER_S = 63.67, 81.27
"""Megabytes a second."""
_MB_PER_GIB = 1024.0


class CheckpointRule(Enum):
    """The times of checkpoints: never, after each hour of work, at each rise of the price, or by the hazard."""

    NONE = "none"
    HOURLY = "hourly"
    RISING = "rising"
    HAZARD = "hazard"


def suspend_us(memory_gib: float) -> int:
    """Return how long it takes to write a checkpoint."""
    return round(memory_gib * _MB_PER_GIB / _WRITTEN_PER_S * SECOND_US)


def resume_us(memory_gib: float, *, is_same_zone: bool) -> int:
    """Return how long it takes to read a checkpoint; from another zone it takes twice as long."""
    return round(memory_gib * _MB_PER_GIB / _READ_PER_S * SECOND_US * (1.0 if is_same_zone else 2.0))


def interval_us(rule: CheckpointRule, pause_us: int, hazard_per_us: float) -> float:
    """Return the work between two checkpoints; infinite if there are none, or if they are not periodic.

    By the hazard (revocations per time) it is Young's sqrt(2 C / h), which balances the time for checkpoints, C each,
    against the work that is lost with a revocation; never less than C, and a minute where C is 0.
    """
    match rule:
        case CheckpointRule.HOURLY:
            return float(HOUR_US)
        case CheckpointRule.HAZARD if hazard_per_us > 0.0:
            return max(sqrt(2.0 * pause_us / hazard_per_us), float(pause_us) or LEAST_EVERY_US)
        case _:
            return inf


def expected_pauses_us(
    rule: CheckpointRule, work_us: float, pause_us: int, every_us: float, rises_per_us: float
) -> float:
    """Return the time that checkpoints of some work are expected to take (5.5)."""
    if rule is CheckpointRule.RISING:
        return work_us * rises_per_us * pause_us
    return floor(work_us / every_us) * float(pause_us)


@dataclass(frozen=True, slots=True)
class CheckpointedRun:
    """A run from its first moment of work: its length with pauses, when checkpoints are finished, the work in each."""

    length_us: float
    finished_us: tuple[float, ...]
    saved_us: tuple[float, ...]
    is_cut: bool = False
    """True if it stops before the work is done."""

    def saved_after(self, ran_us: float) -> float:
        """Return the work that a revocation after so long would leave."""
        at = bisect_right(self.finished_us, ran_us)
        return self.saved_us[at - 1] if at else 0.0


def periodic_run(work_us: float, every_us: float, pause_us: int) -> CheckpointedRun:
    """Return the run with a checkpoint after each stretch of work."""
    count = floor(work_us / every_us)
    saved = tuple(every_us * (at + 1) for at in range(count))
    return CheckpointedRun(
        work_us + count * pause_us, tuple(done + pause_us * at for at, done in enumerate(saved, 1)), saved
    )


def stopped_at(run: CheckpointedRun, ends_us: float, pause_us: int) -> CheckpointedRun | None:
    """Return a run that ends at a time with all its work in a checkpoint; None if it is done by then.

    A checkpoint of its own that ends shortly before is the last one. None also if the work since the one before is less
    than a checkpoint takes.
    """
    at = bisect_right(run.finished_us, ends_us)
    kept, works = run.finished_us[:at], run.saved_us[:at]
    begin_us, saved_us = (kept[-1], works[-1]) if at else (0.0, 0.0)
    worked_us = ends_us - pause_us - begin_us
    if ends_us >= run.length_us or (worked_us < pause_us and not (at and worked_us < 0.0)):
        return None
    if worked_us < 0.0:
        return CheckpointedRun(begin_us, kept, works, is_cut=True)
    return CheckpointedRun(ends_us, (*kept, ends_us), (*works, saved_us + worked_us), is_cut=True)


def rising_run(work_us: float, rises_us: Iterable[float], pause_us: int) -> CheckpointedRun:
    """Return the run with a checkpoint at each rise of the price, in time since the start; not while one is written."""
    now_us, done_us = 0.0, 0.0
    finished, saved = list[float](), list[float]()
    for rise_us in rises_us:
        if rise_us <= now_us:
            continue
        if done_us + rise_us - now_us >= work_us:
            break
        done_us += rise_us - now_us
        now_us = rise_us + pause_us
        finished.append(now_us)
        saved.append(done_us)
    return CheckpointedRun(now_us + work_us - done_us, tuple(finished), tuple(saved))


def guarded_run(
    run: CheckpointedRun, room_us: float, read_us: float, speed: float, pause_us: int, *, is_saved: bool
) -> CheckpointedRun:
    """Return a run that stops where only an on-demand machine would still be in time, if it was not done by then.

    Without a checkpoint the job must be on demand after `room_us`; work that is saved gives that much more room, by
    `speed` (on-demand time for this machine's), less the time to read it. A last checkpoint is written before, if the
    work since the one before is worth it. A run that cannot begin safely has the length 0.
    """
    work_us = run.length_us - len(run.finished_us) * pause_us
    begin_us, saved_us = 0.0, 0.0

    def latest_after(saved_us: float) -> float:
        return room_us + saved_us * speed - (read_us if saved_us or is_saved else 0.0)

    for at, ends_us in enumerate((*run.finished_us, run.length_us)):
        latest_us, is_last = latest_after(saved_us), at == len(run.finished_us)
        if ends_us > latest_us or (not is_last and ends_us > latest_after(run.saved_us[at])):
            kept, works = run.finished_us[:at], run.saved_us[:at]
            if begin_us + work_us - saved_us <= latest_us:
                return CheckpointedRun(begin_us + work_us - saved_us, kept, works)
            worked_us = latest_us - pause_us - begin_us
            is_worth_it = worked_us > 2 * pause_us and latest_us <= latest_after(saved_us + worked_us)
            if worked_us <= 0.0 or not is_worth_it:
                return CheckpointedRun(begin_us, kept, works, is_cut=True)
            return CheckpointedRun(latest_us, (*kept, latest_us), (*works, saved_us + worked_us), is_cut=True)
        begin_us, saved_us = ends_us, 0.0 if is_last else run.saved_us[at]
    return run
