"""The part of a cloud's state that holds the books of the strata: what starts have earned, and what was evicted.

Every spot start that records a promise and an estimate is entered, whatever guarantee decided it, for the promise is
the same to the one who has it. So a change of the guarantee finds the books as they are. With other strata, or in
another unit, the books begin anew, with what runs then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import add
from typing import Any

import numpy as np

from app.domain.budgets import Book, BudgetUnit
from app.domain.events import InstanceEvicted, InstanceExtended, InstanceStarted, InstanceStopped, PolicyChanged
from app.domain.strata import stratum_index, stratum_span
from app.domain.values import EvictionReason, Policy
from app.engine.books import CORE_HOUR_PARTS, PARTS, core_hours_of
from app.engine.cloud.head import Head
from app.engine.cloud.instances import Instances
from app.engine.cloud.looks import MINUTE_US
from app.engine.cloud.nodes import Flavors
from app.engine.cloud.records import BookAccount, Facts, Fold, Folded, Running, Undo, risk_of
from app.engine.cluster import Ints

EARNING = 4.0
"""A start earns its risk so many times, and its promise at most."""
BRIEF_US = MINUTE_US
"""A shorter lifetime earns in proportion to it. No forecast tells such lifetimes apart, so a second would earn as much
as a minute.
"""

LEAST_ENTERED = 2.0**-20
"""A book in which less was entered has no mean of its own: what starts that stopped at once left is rounding."""

BookKey = tuple[float, int]
"""A promise, and the position of a stratum."""


class Books:
    """The accounts of every promise and stratum.

    It folds an event before the head and the instances do: it reads what was in force and what ran before a change.
    """

    def __init__(self, instances: Instances, head: Head, flavors: Flavors) -> None:
        self._instances, self._head, self._flavors = instances, head, flavors
        self._accounts: dict[BookKey, BookAccount] = {}

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceStopped: self._stop,
            InstanceEvicted: self._evict,
            InstanceExtended: self._extend,
            PolicyChanged: self._change,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"books": [(*key, account) for key, account in sorted(self._accounts.items())]}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self._accounts = {(probability, stratum): account for probability, stratum, account in facts.books}

    def of(self, probability: float, now_us: int) -> list[Book]:
        """Return the books of a promise, those of the shortest lifetimes first; see engine.books."""
        policy, asked, rows = self._head.policy, np.array([probability]), self._instances.rows
        by_core_hours = policy.budget is BudgetUnit.CORE_HOURS
        borne, risky, parts = rows.borne(asked, policy.strata_us, now_us, by_core_hours=by_core_hours)
        return _books(policy, self._accounts_of(probability), self._means(), borne[0], risky[0], parts[0])

    def now(self, probabilities: Sequence[float], now_us: int) -> Callable[[], list[list[Book]]]:
        """Return a function that returns the books of each promise as they are now, on any thread."""
        policy, asked, rows = self._head.policy, np.array(probabilities, np.float64), self._instances.rows
        accounts, means = [self._accounts_of(probability) for probability in probabilities], self._means()
        by_core_hours = policy.budget is BudgetUnit.CORE_HOURS
        found = rows.borne_now(asked, policy.strata_us, now_us, by_core_hours=by_core_hours)

        def books() -> list[list[Book]]:
            columns = zip(accounts, *found(), strict=True)
            return [_books(policy, own, means, *of_promise) for own, *of_promise in columns]

        return books

    def left_in(self, stratum: int) -> dict[float, float]:
        """Return what the books of a stratum have left, by promise."""
        by_core_hours = self._head.policy.budget is BudgetUnit.CORE_HOURS
        return {
            probability: one.earned - (one.evicted_core_hours if by_core_hours else one.evicted)
            for (probability, at), one in self._accounts.items()
            if at == stratum
        }

    def _means(self) -> list[float]:
        """Return the mean core-hours of what was entered in each stratum, under any promise; 0 where nothing was."""
        sums = [BookAccount() for _ in range(len(self._head.policy.strata_us) + 1)]
        if self._head.policy.budget is BudgetUnit.CORE_HOURS:
            for key in sorted(self._accounts):  # their order decides the last digits
                sums[key[1]] = _plus(sums[key[1]], self._accounts[key])
        return [_mean(each) for each in sums]

    def _accounts_of(self, probability: float) -> list[BookAccount]:
        count = len(self._head.policy.strata_us) + 1
        return [self._account((probability, stratum)) for stratum in range(count)]

    def enter(self, moved: Folded) -> Undo:
        """Enter starts and stops of spot instances that follow each other."""
        sums: dict[BookKey, BookAccount] = {}
        for event, running in moved:
            promised = running.probability
            if isinstance(event, InstanceStarted):
                more = _entered(running, running.risk, self._weight(running, self._head.policy))
            else:
                more = self._given_back(running, event.at_us)
            if more is None or promised is None:
                continue
            key = self._key(promised, running.book_lifetime_us)
            sums[key] = _plus(sums[key] if key in sums else self._account(key), more)
        changed = {key: self._accounts.get(key) for key in sums}
        self._accounts |= sums
        return lambda: self._put_back(changed)

    def _start(self, event: InstanceStarted) -> Undo | None:
        risk, basis = risk_of(event), event.basis
        if risk is None or basis is None or basis.probability is None:
            return None
        earned, weight = earning(basis.probability, risk, event.lifetime_us), self._weight(event, self._head.policy)
        return self._add(self._key(basis.probability, event.lifetime_us), _entry(earned, weight))

    def _stop(self, event: InstanceStopped) -> Undo | None:
        running = self._instances.running[event.instance_id]
        return self._strike(running) if event.aborted else self._take_back(running, event.at_us)

    def _strike(self, running: Running) -> Undo | None:
        """Take out again all that an instance has entered which never ran."""
        entered = _entered(running, running.whole_risk, self._weight(running, self._head.policy))
        if running.probability is None or entered is None:
            return None
        less = BookAccount(-entered.earned, entered=-entered.entered, core_hours=-entered.core_hours)
        return self._add(self._key(running.probability, running.book_lifetime_us), less)

    def _take_back(self, running: Running, at_us: int) -> Undo | None:
        more = self._given_back(running, at_us)
        if running.probability is None:
            return None
        return self._add(self._key(running.probability, running.book_lifetime_us), more)

    def _given_back(self, running: Running, at_us: int) -> BookAccount | None:
        """Return, below zero, what an instance that stops has earned for risk not borne, if it gives that back.

        In core-hours it also stands in the mean only for the part of its lifetime that it ran.
        """
        promised, whole, policy = running.probability, running.whole_risk, self._head.policy
        if not (policy.gives_back or running.took_offer) or promised is None or whole is None:
            return None
        lifetime_us = running.lifetime_us
        less = earning(promised, running.borne(at_us), lifetime_us) - earning(promised, whole, lifetime_us)
        weight = self._weight(running, policy)
        if weight is None:
            return BookAccount(less)
        unused = running.unused(at_us)
        return BookAccount(weight * less, entered=-unused, core_hours=-unused * weight)

    def _extend(self, event: InstanceExtended) -> Undo | None:
        """Let the book of its first stratum earn by the whole risk and the longer lifetime, in place of the former."""
        running = self._instances.running[event.instance_id]
        promised, former, total = running.probability, running.whole_risk, event.total_risk
        if promised is None or former is None or total is None or event.basis.estimated_probability is None:
            return None
        key, policy = self._key(promised, running.book_lifetime_us), self._head.policy
        earned, was = earning(promised, total, event.lifetime_us), earning(promised, former, running.lifetime_us)
        before, after = self._weight(running, policy), self._weight(running, policy, event.lifetime_us)
        if before is None or after is None:
            return self._add(key, BookAccount(earned - was))
        return self._add(key, BookAccount(after * earned - before * was, core_hours=after - before))

    def _add(self, key: BookKey, more: BookAccount | None) -> Undo | None:
        return None if more is None else self._put(key, _plus(self._account(key), more))

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        running = self._instances.running[event.instance_id]
        if running.risk is None or running.probability is None:
            return None
        if event.at_us > running.deadline_us or event.reason is EvictionReason.DRILL:
            return None
        weight = self._weight(running, self._head.policy)
        key = self._key(running.probability, running.book_lifetime_us)
        return self._add(key, BookAccount(evicted=1, evicted_core_hours=weight or 0.0))

    def _change(self, event: PolicyChanged) -> Undo | None:
        """Begin anew if strata or unit become others: each running instance earns as if it started now."""
        before, policy, former = self._accounts, event.policy, self._head.policy
        if (policy.strata_us, policy.budget) == (former.strata_us, former.budget):
            return None
        self._accounts = {}
        for running in sorted(self._instances.running.values(), key=lambda running: running.seq):
            if running.probability is not None:
                key = running.probability, stratum_index(running.book_lifetime_us, policy.strata_us)
                self._add(key, _entered(running, running.whole_risk, self._weight(running, policy)))
        return lambda: self._reset(before)

    def _weight(self, one: Running | InstanceStarted, policy: Policy, lifetime_us: int | None = None) -> float | None:
        """Return the core-hours that an instance declares, or would for a longer lifetime; None: they do not count."""
        if policy.budget is BudgetUnit.INSTANCES:
            return None
        cores = one.count * self._flavors.by_name[one.flavor].resources.cores
        return core_hours_of(cores, lifetime_us or one.lifetime_us)

    def _key(self, probability: float, lifetime_us: int | None) -> BookKey:
        return probability, stratum_index(lifetime_us or 0, self._head.policy.strata_us)

    def _account(self, key: BookKey) -> BookAccount:
        return self._accounts.get(key, BookAccount())

    def _put(self, key: BookKey, account: BookAccount) -> Undo:
        changed = {key: self._accounts.get(key)}
        self._accounts[key] = account
        return lambda: self._put_back(changed)

    def _put_back(self, changed: Mapping[BookKey, BookAccount | None]) -> None:
        for key, account in changed.items():
            if account is None:
                del self._accounts[key]
            else:
                self._accounts[key] = account

    def _reset(self, accounts: dict[BookKey, BookAccount]) -> None:
        self._accounts = accounts


def _plus(a: BookAccount, b: BookAccount) -> BookAccount:
    return BookAccount._make(map(add, a, b))


def _mean(account: BookAccount, otherwise: float = 0.0) -> float:
    """Return the mean core-hours of what was entered, each by the part of its lifetime that it ran, if there is any."""
    return max(account.core_hours, 0.0) / account.entered if account.entered > LEAST_ENTERED else otherwise


def earning(promised: float, risk: float, lifetime_us: int | None) -> float:
    """Return what a start with this promise, risk and lifetime earns for its book."""
    return min(promised, EARNING * risk) * min((lifetime_us or 0) / BRIEF_US, 1.0)


def _entered(running: Running, risk: float | None, weight: float | None) -> BookAccount | None:
    """Return what an instance adds to a book; None if it stands in none. `weight`: its core-hours, if these count."""
    if running.probability is None or risk is None:
        return None
    return _entry(earning(running.probability, risk, running.lifetime_us), weight)


def _entry(earned: float, weight: float | None) -> BookAccount:
    return BookAccount(earned) if weight is None else BookAccount(weight * earned, entered=1, core_hours=weight)


def _books(
    policy: Policy,
    accounts: Sequence[BookAccount],
    means: Sequence[float],
    committed: Ints,
    risky: Ints,
    risky_parts: Ints,
) -> list[Book]:
    """Join the accounts of a promise (K + 1) with what running instances bear, in parts.

    `means`: the mean weights of the strata; they are usual in a book in which nothing was entered, or a start with a
    promise of its own would find itself usual. The risky ones of a stratum count together, whatever was promised to
    them: else such a start would find a book without any.
    """
    spans = [stratum_span(index, policy.strata_us) for index in range(len(accounts))]
    if policy.budget is BudgetUnit.INSTANCES:
        found = zip((committed / PARTS).tolist(), risky.tolist(), strict=True)
        return [
            Book(*span, account.earned, account.evicted, *own)
            for span, account, own in zip(spans, accounts, found, strict=True)
        ]
    each = zip(accounts, means, strict=True)
    rows = zip(spans, each, committed.tolist(), risky.tolist(), risky_parts.tolist(), strict=True)
    return [
        Book(
            *span,
            account.earned,
            account.evicted,
            parts / CORE_HOUR_PARTS,
            count,
            mean_core_hours=_mean(account, mean),
            evicted_core_hours=account.evicted_core_hours,
            risky_core_hours=of_risky / CORE_HOUR_PARTS,
        )
        for span, (account, mean), parts, count, of_risky in rows
    ]
