"""The options of a job: bids in the pools that could run it, each with its survival and its expected cost.

Both are found by replaying the job's policy, with the safety net, at those starts of the past whose price was nearest
to the one now, prices and bids scaled to it. A bid that another of the same pool beats in both is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isnan, log, nan
from typing import NamedTuple

import numpy as np

from app.domain.times import DAY_US, HOUR_US
from app.engine.cluster import Ints
from app.venues.rules.bounds import FIRST_EFFECT, least_survival
from app.venues.rules.checkpoints import CheckpointRule, interval_us
from app.venues.rules.cost import average_price
from app.venues.rules.features import EVERY_US, features_of
from app.venues.rules.history import Dollars, PriceSteps
from app.venues.rules.jobreplay import (
    COST,
    DONE,
    FIRST_LIVED,
    HIDDEN,
    STATE,
    JobTerms,
    ReplayedStarts,
    ReplayedWays,
    ReplayWork,
)
from app.venues.rules.jobsteps import JobPolicy, WayTimes
from app.venues.rules.planned import FIXED_POOL, NO_POOL, PlanJob, PlanOption, PlanPool
from app.venues.rules.quotes import CONFIDENCE
from app.venues.rules.survival import (
    highest_within,
    lattice,
    least_shares,
    prices_at,
    revocations_under,
    seen_under,
)

NEAREST = 60
_NEAR = 0.05
_HALF_LIFE_US = 10 * DAY_US
"""The width and the half-life of `cost.analog_cost`."""
_SHARES = (0.5, 0.75, 0.9, 0.95, 0.97, 0.99, 1.0)
_OF_ON_DEMAND = (1.0, 10.0)
_SCREENED = 12


@dataclass(frozen=True, slots=True)
class KnownPool:
    """A pool with what is asked of its past again and again: starts, their prices, the usual price of an hour."""

    pool: PlanPool
    starts_us: Ints
    prices: Dollars
    usual: float
    hazard_per_us: float
    window_us: int


class AskedBid(NamedTuple):
    """A bid for a run, with the launch before it, and what the venue's model says of its survival: NaN without one."""

    run_us: float
    launch_us: int
    bid: float
    chance: float


class SeenPast(NamedTuple):
    """The highest prices within a job's run from all starts, the nearest starts with their weights, and the way."""

    highest: Dollars
    near: Ints
    weights: Dollars
    way: ReplayedWays


@dataclass(frozen=True, slots=True)
class FixedMachine:
    """The cheapest machine on demand for a job that is in time: its pool, its times and what the whole job costs."""

    pool: int
    times: WayTimes
    price: float
    cost: float


def known_pool(pool: PlanPool, window_us: int) -> KnownPool:
    """Return a pool with what its past shows."""
    past = pool.past
    if past is None:
        assert pool.curve is not None
        share = max(pool.curve.share_alive(DAY_US), 1e-9)
        return KnownPool(pool, np.empty(0, np.int64), np.empty(0), pool.steady, -log(share) / DAY_US, window_us)
    starts_us = lattice(max(int(past.at_us[0]), past.end_us - window_us), past.end_us, EVERY_US)
    prices = prices_at(past.at_us, past.price, starts_us)
    most = max(pool.machine.on_demand, pool.price) if not isnan(pool.machine.on_demand) else pool.price
    mean, hazard = average_price(past, most), _hazard_per_us(past, most)
    return KnownPool(pool, starts_us, prices, (mean + pool.price) / 2.0, hazard, window_us)


def screened(job: PlanJob, pools: Sequence[KnownPool]) -> list[int]:
    """Return the pools that are worth a closer look for a job: the cheapest by a rough guess, and one of each group."""
    runs_us = {machine: job.run_us(machine) for machine in {one.pool.machine for one in pools}}
    scores = [(_score(job, one, runs_us[one.pool.machine]), at) for at, one in enumerate(pools)]
    ranked = [at for score, at in sorted(scores) if score < inf]
    firsts = {pools[at].pool.group: at for at in reversed(ranked)}
    return [*dict.fromkeys([*ranked[:_SCREENED], *sorted(firsts.values(), key=scores.__getitem__)[:_SCREENED]])]


def _score(job: PlanJob, known: KnownPool, run_us: float) -> float:
    if run_us == inf:
        return inf
    again = min(known.hazard_per_us * run_us / 2.0, 1.0)
    if job.checkpoint is not None:
        again = min((2.0 * job.checkpoint.pause_us * known.hazard_per_us) ** 0.5, again)
    return known.usual * run_us * (1.0 + again)


def pool_options(
    job: PlanJob,
    at: int,
    known: KnownPool,
    fixed: FixedMachine | None,
    now_us: int,
    launch_us: int,
    work: ReplayWork,
) -> list[PlanOption]:
    """Return the bids of a pool that no other of it beats, for a job that begins now; none if too little is known.

    Raises TooManyLaunches.
    """
    run_us = job.run_us(known.pool.machine)
    if known.pool.past is None:
        return [_steady_option(job, at, known, fixed, now_us, (run_us, launch_us), work)]
    highest = highest_within(known.pool.past, known.starts_us, int(run_us) + launch_us)
    policy, terms = terms_of(job, fixed, now_us)
    near = _nearest(known, known.pool.past, terms.left_us)
    seen = SeenPast(highest, near, _weights(known, known.pool.past, near), ways_of([(known.pool, 0.0)]))
    bids = _bids(known, highest)
    chances = _chances(known, known.pool.past, bids, int(run_us) + launch_us)
    asked = [AskedBid(run_us, launch_us, *one) for one in zip(bids, chances, strict=True)]
    found = [_priced(job, at, known, (policy, terms), seen, one, work) for one in asked]
    return undominated([one for one in found if one is not None])


def undominated(options: Sequence[PlanOption]) -> list[PlanOption]:
    """Return the options that no other beats in loss and in survival, by rising loss."""
    found = list[PlanOption]()
    for one in sorted(options, key=lambda one: (one.loss, -one.survival, one.bid)):
        if not found or one.survival > found[-1].survival:
            found.append(one)
    return found


def fixed_option(job: PlanJob, fixed: FixedMachine) -> PlanOption:
    """Return the machine on demand as an option."""
    return PlanOption(FIXED_POOL, inf, fixed.times, 1.0, 1.0, 0.0, fixed.cost, 1.0, _loss(job, fixed.cost, 1.0))


def idle_option() -> PlanOption:
    """Return the option not to run a job."""
    return PlanOption(NO_POOL, 0.0, WayTimes(inf), 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)


def _loss(job: PlanJob, cost: float, done: float) -> float:
    value = job.value or 0.0
    return cost - done * value + (1.0 - done) * job.penalty * value


def _bids(known: KnownPool, highest: Dollars) -> list[float]:
    """Return quantiles of the running maximum, and multiples of the on-demand price."""
    price, on_demand = known.pool.price, known.pool.machine.on_demand
    found = {max(price, float(bid)) for bid in least_shares(highest, _SHARES)}
    found |= {on_demand * share for share in _OF_ON_DEMAND if on_demand * share >= price}
    return sorted(bid for bid in found if not isnan(bid))


def _chances(known: KnownPool, past: PriceSteps, bids: Sequence[float], lifetime_us: int) -> list[float]:
    """Return the survival of rising bids by the model of the pool's venue, NaN without one. It never falls."""
    pool = known.pool
    if pool.trained is None:
        return [nan] * len(bids)
    lifetimes_us = np.full(len(bids), lifetime_us, np.int64)
    rows = features_of(past, known.window_us, np.array(bids), lifetimes_us, pool.machine.on_demand)
    chances: list[float] = np.maximum.accumulate(pool.trained.chances(rows)).tolist()
    return chances


def _times(job: PlanJob, run_us: float, launch_us: int, hazard_per_us: float) -> WayTimes:
    if job.checkpoint is None:
        return WayTimes(run_us, launch_us=launch_us)
    pause_us, read_us, every_us = job.checkpoint
    if every_us is None:
        every_us = interval_us(CheckpointRule.HAZARD, pause_us, hazard_per_us)
    return WayTimes(run_us, every_us, pause_us, read_us, launch_us)


def _hazard_per_us(past: PriceSteps, bid: float) -> float:
    count, spent_us = revocations_under(past.at_us, past.price, past.end_us, bid)
    return count / max(spent_us, 1)


def terms_of(job: PlanJob, fixed: FixedMachine | None, now_us: int) -> tuple[JobPolicy, JobTerms]:
    """Return the policy of a job without any way yet, and its terms."""
    on_demand = WayTimes(inf) if fixed is None else fixed.times
    policy = JobPolicy((), on_demand)
    if job.deadline_us is None:
        return JobPolicy((), on_demand._replace(run_us=1.0)), JobTerms(inf, 0.0, 1)
    return policy, JobTerms(float(job.deadline_us - now_us), 0.0 if fixed is None else fixed.price, 0)


def _priced(
    job: PlanJob,
    at: int,
    known: KnownPool,
    rules: tuple[JobPolicy, JobTerms],
    seen: SeenPast,
    asked: AskedBid,
    work: ReplayWork,
) -> PlanOption | None:
    """Return a bid with its survival and cost; None if the past shows no start like now that could be watched."""
    (run_us, launch_us, bid, chance), past, near = asked, known.pool.past, seen.near
    assert past is not None
    shown, windows = seen_under(seen.highest, known.prices, known.starts_us, bid, int(run_us) + launch_us)
    if isnan(shown):
        return None
    times = _times(job, run_us, launch_us, _hazard_per_us(past, bid))
    starts = ReplayedStarts(known.starts_us[near], known.pool.price / known.prices[near], np.full((len(near), 1), inf))
    ways = seen.way._replace(bids=np.array([bid]))
    found = work.replayed(job.id, starts, ways, rules[1], *_with(rules[0], times))
    calm = known.pool.price * ceil((launch_us + run_us) / HOUR_US)
    cost, done, lived = _means(found, seen.weights, (calm, shown))
    lived = lived if isnan(chance) else chance
    at_least = least_survival(min(lived, shown), windows, FIRST_EFFECT, CONFIDENCE)
    return PlanOption(at, bid, times, lived, at_least, windows, cost, done, _loss(job, cost, done))


def _steady_option(
    job: PlanJob,
    at: int,
    known: KnownPool,
    fixed: FixedMachine | None,
    now_us: int,
    asked: tuple[float, int],
    work: ReplayWork,
) -> PlanOption:
    run_us, launch_us = asked
    curve = known.pool.curve
    assert curve is not None
    times = _times(job, run_us, launch_us, known.hazard_per_us)
    policy, terms = terms_of(job, fixed, now_us)
    drawn = curve.lifetimes_us((np.arange(NEAREST) + 0.5) / NEAREST)[:, None]
    starts = ReplayedStarts(np.zeros(NEAREST, np.int64), np.ones(NEAREST), drawn)
    found = work.replayed(job.id, starts, ways_of([(known.pool, 0.0)]), terms, *_with(policy, times))
    survival = curve.share_alive(run_us + launch_us)
    cost, done = float(found[:, COST].mean()), float((found[:, STATE] == DONE).mean())
    return PlanOption(at, inf, times, survival, curve.at_least, curve.windows, cost, done, _loss(job, cost, done))


def _with(policy: JobPolicy, times: WayTimes) -> tuple[Dollars, Dollars]:
    return JobPolicy((times,), policy.on_demand, policy.margin_us).columns


def ways_of(pools: Sequence[tuple[PlanPool, float]]) -> ReplayedWays:
    """Return pools, each with a bid, as the replay reads them."""
    pasts = [pool.past for pool, _ in pools]
    counts = [0 if past is None else len(past.at_us) for past in pasts]
    empty = PriceSteps(np.empty(0, np.int64), np.empty(0), 0)
    parts = [past or empty for past in pasts] or [empty]
    return ReplayedWays(
        np.concatenate([part.at_us for part in parts]),
        np.concatenate([part.price for part in parts]),
        np.concatenate(([0], np.cumsum(counts, dtype=np.int64))).astype(np.int64),
        np.array([past.end_us if past else 0 for past in pasts], np.int64),
        np.array([bid for _, bid in pools], np.float64),
        np.array([pool.steady if past is None else np.nan for (pool, _), past in zip(pools, pasts, strict=True)]),
        np.array([*[past is not None for past in pasts], True], np.bool_),
    )


def _nearest(known: KnownPool, past: PriceSteps, left_us: float) -> Ints:
    """Return the starts whose price was nearest to the one now, of those after which the deadline could be watched."""
    span_us = past.end_us - int(known.starts_us[0])
    until_us = past.end_us - min(left_us, span_us / 2)
    fit = np.flatnonzero((known.starts_us <= until_us) & ~np.isnan(known.prices))
    distance = np.abs(np.log(known.prices[fit] / known.pool.price))
    order = np.argpartition(distance, NEAREST)[:NEAREST] if len(fit) > NEAREST else np.arange(len(fit))
    return np.sort(fit[order]).astype(np.int64)


def _weights(known: KnownPool, past: PriceSteps, near: Ints) -> Dollars:
    distance = np.log(known.prices[near] / known.pool.price) / _NEAR
    age_us = past.end_us - known.starts_us[near]
    return np.asarray(np.exp(-distance * distance / 2.0) * 0.5 ** (age_us / _HALF_LIFE_US), np.float64)


def _means(found: Dollars, weights: Dollars, calm: tuple[float, float]) -> tuple[float, float, float]:
    """Return the means of cost, of being done, and of the first machine's survival.

    One start is added at which the price stays; of survival, one that lived as often as all past starts did.
    """
    seen = found[:, STATE] != HIDDEN
    weights, found = weights[seen], found[seen]
    whole = weights.sum() + 1.0
    cost = (weights @ found[:, COST] + calm[0]) / whole
    done = (weights @ (found[:, STATE] == DONE) + 1.0) / whole
    lived = (weights @ (found[:, FIRST_LIVED] > 0.0) + calm[1]) / whole
    return float(cost), float(done), float(lived)
