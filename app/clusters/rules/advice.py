"""A plan of checkpoints for a job on an instance, from the forecast of the instance's own eviction.

The rule is that of the policy `hazard` (rules/policies.py), looking ahead: the risk since the last checkpoint adds up
hazard x work at risk, and a checkpoint is taken when it reaches the pause that one costs. Where a checkpoint can be
written within the notice of an eviction, evictions cost no work and only losses without notice count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from math import exp, expm1, inf, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.times import DAY_US

_ByMoment = NDArray[np.float64]

MOST_TOLD = 1_000
"""A plan names the times of so many checkpoints; more are counted."""
LONGEST_US = DAY_US
"""No pause, no writing and no restore takes longer."""
_OLDEST_US = 366 * DAY_US
"""No job has been at work for longer without a checkpoint."""
_SMALL = 1e-4


class AdviceKind(StrEnum):
    """The ground of an advice: the notice of an eviction is long enough to write a checkpoint, or it is not."""

    NOTICE = "notice"
    HAZARD = "hazard"


class AdviceTerms(NamedTuple):
    """Lengths of time in microseconds, and losses without notice per microsecond.

    pause_us: how long a checkpoint stops the job; write_us: after this it counts; restore_us: loading one; at_risk_us:
    the work since the last one.
    """

    pause_us: float
    write_us: float
    restore_us: float
    at_risk_us: float
    losses: float = 0.0


class Hazards(NamedTuple):
    """Evictions per microsecond (K), each up to ends_us (K) from now, and the estimate of the survival then (K)."""

    ends_us: _ByMoment
    rates: _ByMoment
    survival: _ByMoment


@dataclass(frozen=True, slots=True)
class Plan:
    """The checkpoints to come if nothing happens, from now, and what is expected until the instance ends.

    Of `count` checkpoints the first 1,000 have their times. works_us: the work that each saves, since the one before;
    of the first with what was at risk already. overhead: time lost to pauses, evictions and restores over the time
    that the instance runs; lost_us: the work lost.
    """

    kind: AdviceKind
    checkpoints_us: tuple[float, ...]
    works_us: tuple[float, ...]
    count: int
    overhead: float
    lost_us: float


class _Working(NamedTuple):
    """A time of constant hazard in which the job runs: from, to, the work at risk at its beginning.

    `repeats` such times that end with a checkpoint follow each other, one every `every_us`, the pause included.
    """

    from_us: float
    to_us: float
    at_risk_us: float
    rate: float
    is_saved: bool
    repeats: int = 1
    every_us: float = 0.0


class _Ending(NamedTuple):
    """If an instance ends in a stretch: the probability, that x the mean time until then, and the mean time run."""

    probability: float
    after_us: float
    lived_us: float


def hazards_of(ends_us: _ByMoment, evicted: _ByMoment, floor: float) -> Hazards:
    """Return the hazards of an instance that is evicted by ends_us (K, rising) with these probabilities (K).

    No hazard is below the floor. Where nothing is certified (a probability of 1), the mean hazard before goes on.
    """
    known = evicted < 1.0
    passed = -np.log1p(-np.where(known, evicted, 0.0))
    passed = np.maximum.accumulate(passed)
    widths = np.diff(ends_us, prepend=0.0)
    rates = np.diff(passed, prepend=0.0) / widths
    last = int(np.count_nonzero(known)) - 1
    rates[~known] = passed[last] / ends_us[last] if last >= 0 else 0.0
    rates = np.maximum(rates, floor)
    return Hazards(ends_us, rates, np.exp(-np.cumsum(rates * widths)))


def plan_checkpoints(hazards: Hazards, terms: AdviceTerms, grace_us: float) -> Plan:
    """Return the plan of a job that goes on until the hazards end, and what it may be expected to cost."""
    kind = AdviceKind.NOTICE if terms.write_us <= grace_us else AdviceKind.HAZARD
    runs = [*_workings(hazards, terms, kind)]
    costs = [_expected(one, hazards, terms, kind) for one in runs]
    lost_us, stood_us, ran_us = np.sum(costs, axis=0).tolist()
    saved = [one for one in runs if one.is_saved]
    told = [*islice(((one, number) for one in saved for number in range(one.repeats)), MOST_TOLD)]
    times_us = tuple(one.to_us + number * one.every_us for one, number in told)
    works_us = tuple(one.at_risk_us + one.to_us - one.from_us for one, _ in told)
    count, overhead = sum(one.repeats for one in saved), (lost_us + stood_us) / (ran_us + stood_us)
    return Plan(kind, times_us, works_us, count, overhead, lost_us)


def fault_in(terms: AdviceTerms) -> str | None:
    """Return what makes no sense in the terms of a job; None: nothing."""
    for name in ("pause", "write", "restore"):
        if getattr(terms, f"{name}_us") > LONGEST_US:
            return f"{name}_s is more than a day"
    if terms.losses * (terms.pause_us + terms.restore_us) >= 1.0:
        return "loss_every_s is not longer than a checkpoint and a restore together, so no job would ever go on"
    if terms.at_risk_us > _OLDEST_US:
        return "at_risk_s is more than a year"
    return None


def _expected(one: _Working, hazards: Hazards, terms: AdviceTerms, kind: AdviceKind) -> tuple[float, float, float]:
    """Return the work lost, the time that the job stands, and the time that it runs, as expected of one of them."""
    rate = one.rate + terms.losses
    alive, ends = _alive(hazards, terms, one.from_us), _ending(rate, one.to_us - one.from_us)
    counted = _counted(one.rate, terms, kind)
    lost_us = alive * counted / rate * (ends.probability * one.at_risk_us + ends.after_us)
    stood_us = alive * ends.probability * (terms.restore_us + (1.0 - counted / rate) * terms.pause_us)
    if one.is_saved:
        alive_then = _alive(hazards, terms, one.to_us)
        stood_us += alive_then * terms.pause_us
        worthless = _ending(counted, terms.write_us).probability
        lost_us += alive_then * worthless * (one.at_risk_us + one.to_us - one.from_us)
    times = _times(rate * one.every_us, one.repeats)
    return times * lost_us, times * stood_us, times * alive * ends.lived_us


def _times(passed: float, count: int) -> float:
    """Return the sum of the probabilities to reach each of so many equal times, given that the first is reached."""
    return 1.0 if count == 1 else expm1(-passed * count) / expm1(-passed)


def _counted(rate: float, terms: AdviceTerms, kind: AdviceKind) -> float:
    """Return the ends per microsecond that cost work."""
    return terms.losses + (rate if kind is AdviceKind.HAZARD else 0.0)


def _workings(hazards: Hazards, terms: AdviceTerms, kind: AdviceKind) -> Iterator[_Working]:
    """Yield the times of the plan in order. What was at risk before now, was at the present hazard."""
    now_us, at_risk_us, whole_us = 0.0, terms.at_risk_us, float(hazards.ends_us[-1])
    risk = _counted(float(hazards.rates[0]), terms, kind) * at_risk_us * at_risk_us / 2.0
    for ends_us, rate in zip(hazards.ends_us.tolist(), hazards.rates.tolist(), strict=True):
        counted = _counted(rate, terms, kind)
        while now_us < ends_us:
            due_us = now_us + _until(max(terms.pause_us - risk, 0.0), counted, at_risk_us)
            if due_us < ends_us and whole_us - due_us >= terms.pause_us:
                every_us, is_new = due_us - now_us + terms.pause_us, at_risk_us == 0.0 and risk == 0.0
                count = _count(due_us, every_us, ends_us, whole_us - terms.pause_us) if is_new else 1
                yield _Working(now_us, due_us, at_risk_us, rate, is_saved=True, repeats=count, every_us=every_us)
                now_us, at_risk_us, risk = now_us + count * every_us, 0.0, 0.0
            else:
                yield _Working(now_us, ends_us, at_risk_us, rate, is_saved=False)
                ran_us = ends_us - now_us
                risk += counted * (at_risk_us + ran_us / 2.0) * ran_us
                now_us, at_risk_us = ends_us, at_risk_us + ran_us


def _count(due_us: float, every_us: float, before_us: float, last_us: float) -> int:
    """Return how many of the times due, due + every, ... lie before the one and not after the other; at least one."""
    more = int((min(before_us, last_us) - due_us) / every_us)
    return more if more and due_us + more * every_us >= before_us else more + 1


def _until(risk: float, rate: float, at_risk_us: float) -> float:
    """Return how long a job runs until so much risk has come to it: risk = rate (at_risk x + x^2 / 2), solved for x."""
    return sqrt(at_risk_us * at_risk_us + 2.0 * risk / rate) - at_risk_us if rate > 0.0 else inf


def _alive(hazards: Hazards, terms: AdviceTerms, at_us: float) -> float:
    """Return the probability that the instance still runs then."""
    k = int(np.searchsorted(hazards.ends_us, at_us))
    before_us, alive = (float(hazards.ends_us[k - 1]), float(hazards.survival[k - 1])) if k else (0.0, 1.0)
    rate = float(hazards.rates[min(k, len(hazards.rates) - 1)])
    return alive * exp(-rate * (at_us - before_us) - terms.losses * at_us)


def _ending(rate: float, length_us: float) -> _Ending:
    """Return how a stretch of constant hazard may end."""
    passed = rate * length_us
    probability = -expm1(-passed)
    if passed < _SMALL:
        return _Ending(probability, length_us * passed / 2.0, length_us)
    return _Ending(probability, (probability - passed * exp(-passed)) / rate, probability / rate)
