"""The standing of each SLA class: promises, outcomes, and the rest of its eviction budget.

Everything is read from the folded state, so the cost does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.domain.budgets import Book, BudgetUnit
from app.domain.values import Guarantee
from app.engine.cloud import ClassCounts, Cloud
from app.judging.verdicts import Judgement, judge_promise


@dataclass(frozen=True, slots=True)
class Attainment:
    """All instances promised one eviction probability since the cloud began.

    `evicted`: evicted within their declared lifetime; `running`: still running within it. `judgement` is that of
    `ratio`, in which who still runs counts as not evicted. `committed`: the charges of the running ones, 0 unless the
    guarantee is pooled. `core_hours` and `spent_core_hours`: those declared, and those of the evicted, None unless its
    budget counts these. `books`: those of its strata, the shortest lifetimes first; none unless the guarantee is
    stratified.
    """

    promised: float
    admitted: int
    running: int
    evicted: int
    judgement: Judgement
    committed: float
    books: tuple[Book, ...] = ()
    core_hours: float | None = None
    spent_core_hours: float | None = None

    @property
    def unit(self) -> BudgetUnit:
        """The unit of its budget."""
        return BudgetUnit.INSTANCES if self.core_hours is None else BudgetUnit.CORE_HOURS

    @property
    def settled(self) -> int:
        """The number of instances whose promise was kept or broken."""
        return self.admitted - self.running

    @property
    def ratio(self) -> float | None:
        """The share of admitted instances that was evicted so far; None if none was admitted."""
        return self.evicted / self.admitted if self.admitted else None

    @property
    def low(self) -> float:
        """The lower end of the interval of `ratio`."""
        return self.judgement.low

    @property
    def high(self) -> float:
        """The upper end."""
        return self.judgement.high

    @property
    def is_open(self) -> bool:
        """True if the interval reaches to both sides of the promise: too little is known to tell."""
        return self.low <= self.promised < self.high

    @property
    def earned(self) -> float:
        """The evictions that the promises to admitted instances allow, in the budget's unit."""
        return self.promised * (self.admitted if self.core_hours is None else self.core_hours)

    @property
    def left(self) -> float:
        """The rest of the budget; the class is in debt if it is below 0."""
        spent = self.evicted if self.spent_core_hours is None else self.spent_core_hours
        return self.earned - spent - self.committed

    @property
    def is_kept(self) -> bool:
        """True if no more instances were evicted than promised."""
        return self.evicted <= self.promised * self.admitted


def attainment_now(cloud: Cloud, at_us: int) -> Callable[[], list[Attainment]]:
    """Return a function that returns every class by rising probability, as of `at_us` and as things are now.

    It may be called on any thread. All classes take one pass over the running instances.
    """
    promised = sorted(cloud.classes)
    counts, running = [cloud.classes[one] for one in promised], cloud.promises_within(at_us)
    charges, books = _charges(cloud, promised, at_us), _books(cloud, promised, at_us)
    hours = [cloud.core_hours_of(one) if cloud.counts_core_hours else (None, None) for one in promised]
    return lambda: [
        _attainment(one, count, running.get(one, 0), committed, of_strata, *declared)
        for one, count, committed, of_strata, declared in zip(promised, counts, charges(), books(), hours, strict=True)
    ]


def _charges(cloud: Cloud, promised: Sequence[float], at_us: int) -> Callable[[], Sequence[float]]:
    if cloud.policy.guarantee is Guarantee.POOLED:
        return cloud.charges_now(promised, at_us)
    return lambda: [0.0] * len(promised)


def _books(cloud: Cloud, promised: Sequence[float], at_us: int) -> Callable[[], Sequence[Sequence[Book]]]:
    if cloud.policy.guarantee is Guarantee.STRATIFIED:
        return cloud.books_now(promised, at_us)
    return lambda: [()] * len(promised)


def _attainment(
    promised: float,
    counts: ClassCounts,
    running: int,
    committed: float,
    books: Sequence[Book],
    core_hours: float | None,
    spent: float | None,
) -> Attainment:
    judgement = judge_promise(promised, counts.evicted, counts.admitted)
    return Attainment(
        promised, counts.admitted, running, counts.evicted, judgement, committed, tuple(books), core_hours, spent
    )
