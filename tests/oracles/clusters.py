"""Plain twins of the rules of clusters: one job under a bid, evaluation by evaluation, and the counts of hazards."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

SECOND = 1_000_000
HOUR = 3600 * SECOND
TICK = 30 * SECOND
ROW = 6 * HOUR
PRIOR = 12 * HOUR
NEAR = [0.25, 0.5, 0.75, 0.9]
SINCE = [HOUR, 6 * HOUR, 24 * HOUR, 72 * HOUR]


@dataclass
class Pool:
    """Steps (begin, price) of a pool, NaN where unknown, up to `end`; and the bid."""

    steps: Sequence[tuple[int, float]]
    end: int
    bid: float
    begins: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.begins = [begin for begin, _ in self.steps]

    def price(self, at: int) -> float:
        """Return the price at a time."""
        index = bisect_right(self.begins, at) - 1
        return self.steps[index][1] if index >= 0 and at < self.end else math.nan

    def within_since(self, at: int) -> int:
        """Return since when the price has been within the bid."""
        since = at
        for begin, price in reversed([one for one in self.steps if one[0] <= at]):
            if not price <= self.bid:
                break
            since = begin
        return since

    def bought(self, at: int) -> int | None:
        """Return the first time from `at` on at which the price is within the bid; None if a gap comes first."""
        for moment in [at, *(begin for begin in self.begins if begin > at)]:
            if math.isnan(self.price(moment)):
                return None
            if self.price(moment) <= self.bid:
                return moment
        return None

    def leaves(self, at: int) -> tuple[int, bool]:
        """Return when the price leaves the bid, and if it is known to rise above."""
        for begin, price in self.steps:
            if begin > at and not price <= self.bid:
                return begin, price > self.bid
        return self.end, False


def counts(pool: Pool, until: int) -> tuple[list[int], list[int]]:
    """Return the time alive and the evictions by cell before a time, from the smallest stretches that never differ."""
    alive, lost = [0] * 25, [0] * 25
    edges = {pool.end, until, *pool.begins}
    for begin in pool.begins:
        edges |= {begin + since for since in SINCE}
    ordered = sorted(edge for edge in edges if pool.begins[0] <= edge <= min(until, pool.end))
    for begin, ends in pairwise(ordered):
        if pool.price(begin) <= pool.bid:
            cell = cell_of(pool, begin)
            alive[cell] += ends - begin
            if ends < until and ends in pool.begins and pool.price(ends) > pool.bid:
                lost[cell] += 1
    return alive, lost


def cell_of(pool: Pool, at: int) -> int:
    """Return the cell of a moment within the bid."""
    near = sum(1 for share in NEAR if pool.price(at) >= share * pool.bid)
    since = sum(1 for edge in SINCE if at - pool.within_since(at) >= edge)
    return near * 5 + since


def hazard_at(pool: Pool, at: int, left: int, known: dict[int, tuple[list[int], list[int]]], cell: int | None) -> float:
    """Return the evictions per microsecond that the rows of the past give a cell, or all of them together (None)."""
    row = pool.begins[0] + (at - pool.begins[0]) // ROW * ROW
    alive, lost = known.setdefault(row, counts(pool, row))
    overall = sum(lost) / max(float(sum(alive)), 1.0)
    rate = overall if cell is None else (lost[cell] + overall * PRIOR) / (alive[cell] + PRIOR)
    return max(rate, 1.0 / (float(sum(alive)) + left))


class Rule:
    """A policy on one instance: `wants` is asked at each evaluation at which the job runs and nothing is written."""

    def __init__(self, name: str, price: float, bid: float) -> None:
        self.name, self.bid = name, bid
        self.threshold = (price + bid) / 2
        self.prices: list[float] = []
        self.last_price = 0.0
        self.hours_done: set[int] = set()
        self.risk = 0.0

    def hear(self, life: int, price: float) -> None:
        """Take a price: after each ten minutes the threshold is made anew."""
        self.prices.append(price)
        if life % (600 * SECOND) == 0:
            total = 0.0
            for one in self.prices:
                total += one
            self.threshold, self.prices = (total / len(self.prices) + self.bid) / 2, []

    def wants(self, life: int, price: float, rate: float, at_risk: int, left: int, pause: int) -> bool:
        """Tell if a checkpoint is taken, as Algorithm 1 and the design have it."""
        match self.name:
            case "hour":
                return self.hour_ends(life)
            case "threshold":
                return self.hour_ends(life) or (self.threshold < price <= self.bid)
            case "threshold_ckptman":
                return self.rises(life, price) or self.hour_ends(life)
            case "young":
                return rate * (float(at_risk) * at_risk) >= 2.0 * pause
            case "hazard":
                return self.risk >= pause and left >= pause
        return False

    def hour_ends(self, life: int) -> bool:
        """Tell if less than the margin of the hour is left, once."""
        hour = life // HOUR
        if HOUR - life % HOUR < 180 * SECOND and hour not in self.hours_done:
            self.hours_done.add(hour)
            return True
        return False

    def rises(self, life: int, price: float) -> bool:
        """Tell if the published program acts: each minute, on a higher price than before, above bid - 20 %."""
        if life % (60 * SECOND):
            return False
        before, self.last_price = self.last_price, price
        return price > before and price > 0.8 * self.bid

    def done(self, price: float) -> None:
        """Note a checkpoint."""
        self.threshold = (price + self.bid) / 2
        self.risk = 0.0


@dataclass
class Run:
    """A job: all that is known of it while it goes from instance to instance."""

    pool: Pool
    policy: str
    work: int
    pause: int
    write: int
    recover: int
    boot: int
    saved: int = 0
    cost: float = 0.0
    checkpoints: int = 0
    evictions: int = 0
    lost: int = 0
    known: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def go(self, start: int) -> int | None:
        """Return when the job is done; None if a gap or the end hides it."""
        now = start
        while True:
            bought = self.pool.bought(now)
            if bought is None:
                return None
            ends, is_evicted = self.pool.leaves(bought)
            done, worked = self.instance(bought, ends)
            if done is None and not is_evicted:
                return None
            self.pay(bought, ends if done is None else done, done is not None)
            if done is not None:
                return done
            self.evictions += 1
            self.lost += worked - self.saved
            now = ends

    def pay(self, bought: int, until: int, is_whole: bool) -> None:
        """Pay each started hour at its start; of an instance that was revoked the full hours alone."""
        bill, hour = 0.0, bought
        while hour < until and (is_whole or hour + HOUR <= until):
            bill += self.pool.price(hour)
            hour += HOUR
        self.cost += bill

    def instance(self, bought: int, ends: int) -> tuple[int | None, int]:
        """Run on one instance: return when the job was done there, or None, and the work by its end."""
        ready = bought + self.boot + (self.recover if self.saved else 0)
        runs_from, worked, taken, durable = ready, self.saved, self.saved, None
        rule = Rule(self.policy, self.pool.price(bought), self.pool.bid)
        within, now = self.pool.within_since(bought), bought
        assert within <= bought
        while True:
            now += TICK
            done = runs_from + self.work - worked
            if min(done, ends) <= now:
                break
            price, ran = self.pool.price(now), max(now - runs_from, 0)
            rule.hear(now - bought, price)
            if durable is not None and durable <= now:
                self.saved, durable = taken, None
            at_risk, left = worked + ran - taken, self.work - worked - ran
            rate = self.rate(now, left)
            lately = min(ran, TICK)
            rule.risk += rate * (at_risk - lately / 2) * lately
            if now < runs_from or durable is not None:
                continue
            if rule.wants(now - bought, price, rate, at_risk, left, self.pause):
                rule.done(price)
                worked += ran
                taken, runs_from, durable = worked, now + self.pause, now + self.write
                self.checkpoints += 1
        if done <= ends:
            return done, self.work
        worked += max(ends - runs_from, 0)
        if self.policy == "notice" and ends >= ready:
            self.saved = worked
            self.checkpoints += 1
        elif durable is not None and durable <= ends:
            self.saved = taken
        return None, worked

    def rate(self, now: int, left: int) -> float:
        """Return the hazard that the policy looks at, 0 if it looks at none."""
        if self.policy not in ("young", "hazard"):
            return 0.0
        cell = cell_of(self.pool, now) if self.policy == "hazard" else None
        return hazard_at(self.pool, now, left, self.known, cell)


def expected_times(survival: Sequence[float], work: int, pause: int, restart: int, rule: Sequence[int]) -> list[float]:
    """Return the least expected time of a job, and that of a rule; all times are whole units, a restart's age is 0.

    survival: the share of instances that live for so many units. rule: for each age after a checkpoint, after how much
    work the next one is taken, unless less work than a pause would be left. Dynamic programming over work left and age.
    """
    lived = list(accumulate(((one + other) / 2 for one, other in pairwise(survival)), initial=0.0))
    ages = work * (1 + pause) + 1
    best, ruled = [[0.0] * ages], [[0.0] * ages]
    for left in range(1, work + 1):
        best.append([0.0] * ages)
        ruled.append([0.0] * ages)
        for age in range((work - left) * (1 + pause) + 1):
            options = []
            for part in range(1, left + 1):
                end = age + part + (pause if part < left else 0)
                chance = survival[end] / survival[age]
                time = (lived[end] - lived[age]) / survival[age] + (1 - chance) * restart
                options.append((part, end, chance, time))
            taken = rule[age] if rule[age] + pause <= left else left
            best[left][age] = min(_value(best, left, age, option) for option in options)
            ruled[left][age] = _value(ruled, left, age, options[taken - 1])
    return [best[work][0], ruled[work][0]]


def _value(values: Sequence[Sequence[float]], left: int, age: int, option: tuple[int, int, float, float]) -> float:
    part, end, chance, time = option
    after = time + chance * values[left - part][end]
    return after / chance if age == 0 else after + (1 - chance) * values[left][0]
