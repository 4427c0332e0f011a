"""One job on instances bought under a bid, one after another, until its work is done.

An instance is bought as soon as the price is within the bid, boots, loads the last checkpoint if there is one, and is
revoked when the price rises above the bid. A checkpoint stops the job for a pause and counts once it is written.
Billing is that of 2015: each started hour at the price at its start; the hour in which the provider revokes is free.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from app.clusters.rules.hazards import LearnedHazard
from app.clusters.rules.policies import (
    HAZARD,
    NOTICE,
    TICK_US,
    YOUNG,
    decide,
    hear,
    new_mind,
    rate_now,
    remember,
    take_risk,
)
from app.domain.times import HOUR_US
from app.engine.cluster import Bools, Ints
from app.engine.compiled import compiled, inner
from app.venues.rules.history import Dollars

_NEVER = -1
_KNOWN, _HIDDEN = True, False
_DONE, _REVOKED = True, False


class RunTerms(NamedTuple):
    """Times in microseconds: the job's work, a checkpoint's pause and writing, loading one, booting an instance."""

    work_us: int
    pause_us: int
    write_us: int
    recover_us: int
    boot_us: int


class PoolUnderBid(NamedTuple):
    """The arrays of `PriceSteps`, and the bid."""

    at_us: Ints
    price: Dollars
    end_us: int
    bid: float


class RunOutcome(NamedTuple):
    """If the end of the run is known, when the work was done, dollars paid, and what happened on the way."""

    is_known: bool
    done_at_us: int
    cost: float
    checkpoints: int
    evictions: int
    lost_us: int


class LeaseOutcome(NamedTuple):
    """One instance's part: is the job done, when it ended, the work by then and what of it is saved."""

    is_done: bool
    ended_us: int
    worked_us: int
    saved_us: int
    checkpoints: int


class RunOutcomes(NamedTuple):
    """The outcomes of several starts, as arrays of one length each."""

    is_known: Bools
    done_at_us: Ints
    cost: Dollars
    checkpoints: Ints
    evictions: Ints
    lost_us: Ints


@compiled
def run_jobs(pool: PoolUnderBid, learned: LearnedHazard, terms: RunTerms, policy: int, starts_us: Ints) -> RunOutcomes:
    """Return what becomes of a job at each of several starts, each for itself."""
    count = starts_us.shape[0]
    known, cost = np.zeros(count, np.bool_), np.zeros(count)
    done_at_us, checkpoints = np.zeros(count, np.int64), np.zeros(count, np.int64)
    evictions, lost_us = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for at in range(count):
        one = run_job(pool, learned, terms, policy, starts_us[at])
        known[at], done_at_us[at], cost[at] = one.is_known, one.done_at_us, one.cost
        checkpoints[at], evictions[at], lost_us[at] = one.checkpoints, one.evictions, one.lost_us
    return RunOutcomes(known, done_at_us, cost, checkpoints, evictions, lost_us)


@compiled
def run_job(pool: PoolUnderBid, learned: LearnedHazard, terms: RunTerms, policy: int, start_us: int) -> RunOutcome:
    """Return what becomes of a job that is submitted at a time. A gap or the end of the prices hides it."""
    saved_us, cost, checkpoints, evictions, lost_us, now_us = 0, 0.0, 0, 0, 0, start_us
    step = -1
    while True:
        step, now_us = _bought(pool, step, now_us)
        if now_us == _NEVER:
            return RunOutcome(_HIDDEN, start_us, cost, checkpoints, evictions, lost_us)
        ends_us, is_evicted = _life(pool, step)
        lease = on_instance(pool, learned, terms, policy, (step, now_us, ends_us), saved_us)
        checkpoints += lease.checkpoints
        if not lease.is_done and not is_evicted:
            return RunOutcome(_HIDDEN, start_us, cost, checkpoints, evictions, lost_us)
        cost += _bill(pool, step, now_us, lease)
        if lease.is_done:
            return RunOutcome(_KNOWN, lease.ended_us, cost, checkpoints, evictions, lost_us)
        evictions += 1
        lost_us += lease.worked_us - lease.saved_us
        saved_us, now_us = lease.saved_us, ends_us


@inner
def _bought(pool: PoolUnderBid, step: int, from_us: int) -> tuple[int, int]:
    """Return the first time from `from_us` on at which the price is within the bid, with its step; NEVER if unknown."""
    at_us, price = pool.at_us, pool.price
    while step + 1 < at_us.shape[0] and at_us[step + 1] <= from_us:
        step += 1
    if step < 0:
        return step, _NEVER
    while price[step] > pool.bid and step + 1 < at_us.shape[0]:
        step += 1
        from_us = at_us[step]
    is_known = price[step] <= pool.bid and from_us < pool.end_us
    return step, from_us if is_known else _NEVER


@inner
def _life(pool: PoolUnderBid, step: int) -> tuple[int, bool]:
    """Return when the price leaves the bid after a step within it, and if it is known to rise above."""
    later = step + 1
    while later < pool.at_us.shape[0] and pool.price[later] <= pool.bid:
        later += 1
    if later == pool.at_us.shape[0]:
        return pool.end_us, False
    return pool.at_us[later], pool.price[later] > pool.bid


@inner
def _bill(pool: PoolUnderBid, step: int, bought_us: int, lease: LeaseOutcome) -> float:
    """Return the price of the started hours, without the last one if the provider cut it short."""
    cost, hour_us = 0.0, bought_us
    while hour_us < lease.ended_us and (lease.is_done or hour_us + HOUR_US <= lease.ended_us):
        while step + 1 < pool.at_us.shape[0] and pool.at_us[step + 1] <= hour_us:
            step += 1
        cost += pool.price[step]
        hour_us += HOUR_US
    return cost


@inner
def on_instance(
    pool: PoolUnderBid,
    learned: LearnedHazard,
    terms: RunTerms,
    policy: int,
    life: tuple[int, int, int],
    saved_us: int,
) -> LeaseOutcome:
    """Run the job on one instance from its last checkpoint. life: the price's step at the launch, launch, end."""
    step, bought_us, ends_us = life
    ready_us = bought_us + terms.boot_us + (terms.recover_us if saved_us else 0)
    resumes_us, worked_us, taken_us, durable_us = ready_us, saved_us, saved_us, _NEVER
    within_us = _within_since(pool, step)
    mind, tick, checkpoints, bid = new_mind(pool.price[step], pool.bid), 0, 0, pool.bid
    while True:
        tick += 1
        now_us = bought_us + tick * TICK_US
        if min(resumes_us + terms.work_us - worked_us, ends_us) <= now_us:
            break
        while step + 1 < pool.at_us.shape[0] and pool.at_us[step + 1] <= now_us:
            step += 1
        price, ran_us = pool.price[step], max(now_us - resumes_us, 0)
        hear(mind, tick, price, bid)
        if durable_us != _NEVER and durable_us <= now_us:
            saved_us, durable_us = taken_us, _NEVER
        at_risk_us, left_us, rate = worked_us + ran_us - taken_us, terms.work_us - worked_us - ran_us, 0.0
        if policy in (HAZARD, YOUNG):
            rate = rate_now(policy, learned, now_us, (price, bid, now_us - within_us), left_us)
            take_risk(mind, rate, at_risk_us, min(ran_us, TICK_US))
        is_free = now_us >= resumes_us and durable_us == _NEVER
        if is_free and decide(policy, mind, tick, (price, bid), rate, (at_risk_us, left_us, terms.pause_us)):
            remember(mind, price, bid)
            worked_us += ran_us
            taken_us, resumes_us, durable_us = worked_us, now_us + terms.pause_us, now_us + terms.write_us
            checkpoints += 1
    return _ended(
        terms, policy, ends_us, (ready_us, resumes_us, durable_us), (worked_us, taken_us, saved_us, checkpoints)
    )


@inner
def _within_since(pool: PoolUnderBid, step: int) -> int:
    """Return since when the price has been known and within the bid."""
    while step > 0 and pool.price[step - 1] <= pool.bid:
        step -= 1
    return int(pool.at_us[step])


@inner
def _ended(
    terms: RunTerms, policy: int, ends_us: int, times: tuple[int, int, int], work: tuple[int, int, int, int]
) -> LeaseOutcome:
    """Return the end: done, or revoked. A notice lets a job that is up write all of its work within the grace."""
    ready_us, resumes_us, durable_us = times
    worked_us, taken_us, saved_us, checkpoints = work
    done_us = resumes_us + terms.work_us - worked_us
    if done_us <= ends_us:
        return LeaseOutcome(_DONE, done_us, terms.work_us, saved_us, checkpoints)
    worked_us += max(ends_us - resumes_us, 0)
    if policy == NOTICE and ends_us >= ready_us:
        return LeaseOutcome(_REVOKED, ends_us, worked_us, worked_us, checkpoints + 1)
    if durable_us != _NEVER and durable_us <= ends_us:
        saved_us = taken_us
    return LeaseOutcome(_REVOKED, ends_us, worked_us, saved_us, checkpoints)
