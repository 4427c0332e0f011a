"""How each SLA class stands now: what was promised, what became of it, and what is left of its eviction budget.

All of it is read from the folded state, so it costs the same however long the log is.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from app.admission.reliability import CONFIDENCE, wilson_interval
from app.domain.values import Guarantee, Market
from app.engine.cloud import Cloud


@dataclass(frozen=True, slots=True)
class Attainment:
    """All instances that were promised one eviction probability, since the cloud began.

    `evicted`: within their declared lifetime; `running`: within it still. `low` and `high` bound the probability that
    happened (Wilson, at `CONFIDENCE`, as if evictions were independent). `committed`: what those that run are charged,
    0 unless the guarantee is pooled.
    """

    promised: float
    admitted: int
    running: int
    evicted: int
    low: float
    high: float
    committed: float

    @property
    def settled(self) -> int:
        """Those whose promise was kept or broken."""
        return self.admitted - self.running

    @property
    def ratio(self) -> float | None:
        """Evicted of those admitted, the seeds' metric."""
        return self.evicted / self.admitted if self.admitted else None

    @property
    def earned(self) -> float:
        """How many of those admitted may be evicted."""
        return self.promised * self.admitted

    @property
    def left(self) -> float:
        """What is left of the budget; below 0 the class is in debt."""
        return self.earned - self.evicted - self.committed

    @property
    def is_kept(self) -> bool:
        """Whether no more were evicted than promised."""
        return self.evicted <= self.earned


def read_attainment(cloud: Cloud, at_us: int) -> list[Attainment]:
    """Every class by rising probability, as of `at_us`."""
    running = Counter(
        instance.probability
        for instance in cloud.running.values()
        if instance.market is Market.SPOT and at_us < instance.deadline_us
    )
    pooled = cloud.policy.guarantee is Guarantee.POOLED
    return [
        _attainment(cloud, promised, running[promised], cloud.charges(promised, at_us) if pooled else 0.0)
        for promised in sorted(cloud.classes)
    ]


def _attainment(cloud: Cloud, promised: float, running: int, committed: float) -> Attainment:
    admitted, evicted = cloud.classes[promised]
    low, high = wilson_interval(evicted, admitted - running, CONFIDENCE)
    return Attainment(promised, admitted, running, evicted, low, high, committed)
