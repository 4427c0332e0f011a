"""The standing of each SLA class: promises, outcomes, and the rest of its eviction budget.

Everything is read from the folded state, so the cost does not grow with the log.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.admission.reliability import CONFIDENCE, wilson_interval
from app.domain.values import Book, Guarantee
from app.engine.cloud import Cloud


@dataclass(frozen=True, slots=True)
class Attainment:
    """All instances promised one eviction probability since the cloud began.

    `evicted`: evicted within their declared lifetime; `running`: still running within it. `low` and `high` are the
    interval of `ratio` (Wilson at `CONFIDENCE`, as if evictions were independent); who still runs counts as not
    evicted. `committed`: the charges of the running ones, 0 unless the guarantee is pooled. `books`: those of its
    strata, the shortest lifetimes first; none unless the guarantee is stratified.
    """

    promised: float
    admitted: int
    running: int
    evicted: int
    low: float
    high: float
    committed: float
    books: tuple[Book, ...] = ()

    @property
    def settled(self) -> int:
        """The number of instances whose promise was kept or broken."""
        return self.admitted - self.running

    @property
    def ratio(self) -> float | None:
        """The share of admitted instances that was evicted so far; None if none was admitted."""
        return self.evicted / self.admitted if self.admitted else None

    @property
    def is_open(self) -> bool:
        """True if the interval reaches to both sides of the promise: too little is known to tell."""
        return self.low <= self.promised < self.high

    @property
    def earned(self) -> float:
        """The number of evictions that the promises to admitted instances allow."""
        return self.promised * self.admitted

    @property
    def left(self) -> float:
        """The rest of the budget; the class is in debt if it is below 0."""
        return self.earned - self.evicted - self.committed

    @property
    def is_kept(self) -> bool:
        """True if no more instances were evicted than promised."""
        return self.evicted <= self.earned


def read_attainment(cloud: Cloud, at_us: int) -> list[Attainment]:
    """Return every class by rising probability, as of `at_us`."""
    running = cloud.promises_within(at_us)
    return [_attainment(cloud, promised, running.get(promised, 0), at_us) for promised in sorted(cloud.classes)]


def _attainment(cloud: Cloud, promised: float, running: int, at_us: int) -> Attainment:
    admitted, evicted = cloud.classes[promised]
    low, high = wilson_interval(evicted, admitted, CONFIDENCE)
    guarantee = cloud.policy.guarantee
    committed = cloud.charges(promised, at_us) if guarantee is Guarantee.POOLED else 0.0
    books = cloud.books(promised, at_us) if guarantee is Guarantee.STRATIFIED else ()
    return Attainment(promised, admitted, running, evicted, low, high, committed, tuple(books))
