"""The pooled guarantee: of all that are promised an eviction probability p, at most the share p is evicted.

Every admission earns p; what runs is charged for what it may cost (engine.exposure); an eviction costs 1. As long as
evicted + charges <= earned, a load as high as ever seen can evict all that it would reach and the promise is kept:
the budget survives the burst, not only the mean.
"""

from __future__ import annotations

from app.domain.values import Budget
from app.engine.cloud import ClassCounts, Cloud
from app.engine.exposure import charge, unseen

EXPOSED_SHARE = 0.8
"""How much of what was earned exposed instances may take. The rest is for those who become exposed later, when the
on-demand load goes higher than ever before."""


def read_budget(cloud: Cloud, flavor: str, lifetime_us: int, probability: float, estimate: float, at_us: int) -> Budget:
    """The budget of a start's class, with the start's own charge and risk.

    `estimate` is the table's eviction probability of the lifetime. Whatever the history shows, the next L bring what it
    does not with probability L / (seen + L), so the risk is not less.
    """
    seen_us = at_us - cloud.created_us
    admitted, evicted = cloud.classes.get(probability, ClassCounts())
    committed, reached = cloud.exposure(flavor, probability, at_us)
    return Budget(
        earned=probability * (admitted + 1),
        evicted=evicted,
        committed=committed,
        charge=charge(reached, lifetime_us, seen_us),
        risk=max(estimate, unseen(lifetime_us, seen_us)),
    )


def affords(budget: Budget, probability: float) -> bool:
    """Whether a start of the class may be admitted.

    It may if it earns what it is likely to cost (twice that while the class is in debt), or if the budget can pay its
    charge beside all that is lost or charged already.
    """
    in_debt = budget.evicted > budget.earned
    if budget.risk <= (probability / 2 if in_debt else probability):
        return True
    spent = budget.evicted + budget.committed + budget.charge
    return spent <= (EXPOSED_SHARE if budget.charge >= 1.0 else 1.0) * budget.earned
