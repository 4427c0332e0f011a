"""The part of a cloud's state that holds the books of the strata: what starts have earned, and what was evicted.

Every spot start that records a promise and an estimate is entered, whatever guarantee decided it, for the promise is
the same to the one who has it. So a change of the guarantee finds the books as they are. With other strata the books
begin anew, with what runs then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from app.domain.events import InstanceEvicted, InstanceExtended, InstanceStarted, InstanceStopped, PolicyChanged
from app.domain.strata import stratum_index, stratum_span
from app.domain.values import Book, EvictionReason
from app.engine.books import PARTS
from app.engine.cloud.head import Head
from app.engine.cloud.instances import Instances
from app.engine.cloud.records import BookAccount, Facts, Fold, Folded, Running, Undo, risk_of
from app.engine.cluster import Ints

EARNING = 4.0
"""A start earns its risk so many times, and its promise at most."""

BookKey = tuple[float, int]
"""A promise, and the position of a stratum."""


class Books:
    """The accounts of every promise and stratum.

    It folds an event before the head and the instances do: it reads what was in force and what ran before a change.
    """

    def __init__(self, instances: Instances, head: Head) -> None:
        self._instances, self._head = instances, head
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
        boundaries_us = self._head.policy.strata_us
        committed, risky = self._instances.rows.borne(np.array([probability]), boundaries_us, now_us)
        return _books(boundaries_us, self._accounts_of(probability), committed[0], risky[0])

    def now(self, probabilities: Sequence[float], now_us: int) -> Callable[[], list[list[Book]]]:
        """Return a function that returns the books of each promise as they are now, on any thread.

        `probabilities` rise.
        """
        boundaries_us = self._head.policy.strata_us
        accounts = [self._accounts_of(probability) for probability in probabilities]
        borne = self._instances.rows.borne_now(np.array(probabilities), boundaries_us, now_us)
        return lambda: [_books(boundaries_us, *one) for one in zip(accounts, *borne(), strict=True)]

    def _accounts_of(self, probability: float) -> list[BookAccount]:
        count = len(self._head.policy.strata_us) + 1
        return [self._account((probability, stratum)) for stratum in range(count)]

    def enter(self, moved: Folded) -> Undo:
        """Enter starts and stops of spot instances that follow each other."""
        earned: dict[BookKey, float] = {}
        for event, running in moved:
            is_start, promised = isinstance(event, InstanceStarted), running.probability
            more = _earned(promised, running.risk) if is_start else _given_back(running, event.at_us)
            if more is None or promised is None:
                continue
            key = self._key(promised, running.book_lifetime_us)
            earned[key] = (earned[key] if key in earned else self._account(key).earned) + more
        changed = {key: self._accounts.get(key) for key in earned}
        self._accounts |= {key: self._account(key)._replace(earned=total) for key, total in earned.items()}
        return lambda: self._put_back(changed)

    def _start(self, event: InstanceStarted) -> Undo | None:
        risk, basis = risk_of(event), event.basis
        if risk is None or basis is None or basis.probability is None:
            return None
        return self._earn(self._key(basis.probability, event.lifetime_us), risk)

    def _stop(self, event: InstanceStopped) -> Undo | None:
        return self._take_back(self._instances.running[event.instance_id], event.at_us)

    def _take_back(self, running: Running, at_us: int) -> Undo | None:
        more = _given_back(running, at_us)
        if more is None or running.probability is None:
            return None
        return self._add(self._key(running.probability, running.book_lifetime_us), more)

    def _extend(self, event: InstanceExtended) -> Undo | None:
        """Let the book of its first stratum earn by the whole risk, in place of what it earned by the former one."""
        running = self._instances.running[event.instance_id]
        promised, former, total = running.probability, running.whole_risk, event.total_risk
        if promised is None or former is None or total is None or event.basis.estimated_probability is None:
            return None
        key = self._key(promised, running.book_lifetime_us)
        return self._add(key, min(promised, EARNING * total) - min(promised, EARNING * former))

    def _earn(self, key: BookKey, risk: float) -> Undo:
        return self._add(key, min(key[0], EARNING * risk))

    def _add(self, key: BookKey, more: float) -> Undo:
        old = self._account(key)
        return self._put(key, BookAccount(old.earned + more, old.evicted))

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        running = self._instances.running[event.instance_id]
        if running.risk is None or running.probability is None:
            return None
        if event.at_us > running.deadline_us or event.reason is EvictionReason.DRILL:
            return None
        key = self._key(running.probability, running.book_lifetime_us)
        old = self._account(key)
        return self._put(key, BookAccount(old.earned, old.evicted + 1))

    def _change(self, event: PolicyChanged) -> Undo | None:
        """Begin anew if the strata become others: each running instance earns as if it started now."""
        before, boundaries_us = self._accounts, event.policy.strata_us
        if boundaries_us == self._head.policy.strata_us:
            return None
        self._accounts = {}
        for running in sorted(self._instances.running.values(), key=lambda running: running.seq):
            if running.whole_risk is not None and running.probability is not None:
                stratum = stratum_index(running.book_lifetime_us, boundaries_us)
                self._earn((running.probability, stratum), running.whole_risk)
        return lambda: self._reset(before)

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


def _earned(promised: float | None, risk: float | None) -> float | None:
    """Return what a start earns; None if it stands in no book."""
    return None if promised is None or risk is None else min(promised, EARNING * risk)


def _given_back(running: Running, at_us: int) -> float | None:
    """Return, below zero, what a start that took what it could get earned for risk not borne when it stops."""
    promised, whole = running.probability, running.whole_risk
    if not running.took_offer or promised is None or whole is None:
        return None
    return min(promised, EARNING * running.borne(at_us)) - min(promised, EARNING * whole)


def _books(boundaries_us: Sequence[int], accounts: Sequence[BookAccount], committed: Ints, risky: Ints) -> list[Book]:
    """Join the accounts of a promise (K + 1) with what its running instances bear."""
    borne = zip((committed / PARTS).tolist(), risky.tolist(), strict=True)
    return [
        Book(*stratum_span(index, boundaries_us), *account, *own)
        for index, (account, own) in enumerate(zip(accounts, borne, strict=True))
    ]
