"""The pooled guarantee: of all that are promised an eviction probability p, at most the share p is evicted.

Every admission earns p; what runs is charged for what it may cost (engine.exposure); an eviction costs 1. As long as
evicted + charges <= earned, a load as high as ever seen can evict all that it would reach and the promise is kept:
the budget survives the burst, not only the mean.
"""

from __future__ import annotations

from dataclasses import replace

from app.admission.quote import Quotes
from app.domain.requests import StartRequest
from app.domain.values import Budget
from app.engine.cloud import ClassCounts, Cloud
from app.engine.exposure import charge, unseen

EXPOSED_SHARE = 0.8
"""How much of what was earned exposed instances may take. The rest is for those who become exposed later, when the
on-demand load goes higher than ever before."""


def read_budget(
    cloud: Cloud, request: StartRequest, probability: float, estimate: float, slots: int, quotes: Quotes, at_us: int
) -> Budget:
    """The budget of a start's class, with the start's own charge and risk.

    `estimate` is the table's eviction probability of the lifetime. Whatever the history shows, the next L bring what it
    does not with probability L / (seen + L), so the risk is not less.
    """
    lifetime_us, seen_us = request.lifetime_us or 0, at_us - cloud.created_us
    admitted, evicted = cloud.classes.get(probability, ClassCounts())
    committed, reached = cloud.exposure(request.flavor, probability, at_us)
    budget = Budget(
        earned=probability * (admitted + 1),
        evicted=evicted,
        committed=committed,
        charge=charge(reached, lifetime_us, seen_us),
        risk=max(estimate, unseen(lifetime_us, seen_us)),
    )
    if affords(budget, probability):
        return budget
    certified_us = quotes.lifetime_us(request.flavor, slots, _bearable(budget, probability)) or 0
    return replace(budget, affordable_us=_affordable_us(budget, probability, certified_us, reached, seen_us))


def affords(budget: Budget, probability: float) -> bool:
    """Whether a start of the class may be admitted.

    It may if it earns what it is likely to cost (twice that while the class is in debt), or if the budget can pay its
    charge beside all that is lost or charged already.
    """
    return budget.risk <= _bearable(budget, probability) or budget.charge <= _spare(budget, exposed=budget.charge >= 1)


def _bearable(budget: Budget, probability: float) -> float:
    """The risk that a start may have whatever is left of the budget."""
    return probability / 2 if budget.evicted > budget.earned else probability


def _spare(budget: Budget, *, exposed: bool) -> float:
    """What is left for the charge of a start."""
    return (EXPOSED_SHARE if exposed else 1.0) * budget.earned - budget.evicted - budget.committed


def _affordable_us(budget: Budget, probability: float, certified_us: int, reached: float, seen_us: int) -> int:
    """The longest lifetime that the rule admits in place of one that is too long; 0 where it admits none.

    `certified_us`: below it the table's estimate is bearable; `reached`: the share of the room that the start reaches.
    """
    by_risk_us = min(certified_us - 1, _unseen_at_most(_bearable(budget, probability), seen_us))
    by_charge_us = _unseen_at_most(_spare(budget, exposed=False) / reached, seen_us) if 0 < reached <= 1 else 0
    return max(by_risk_us, by_charge_us, 0)


def _unseen_at_most(risk: float, seen_us: int) -> int:
    """The lifetime L with L / (seen + L) = risk, for a risk below 1."""
    return int(seen_us * risk / (1 - risk)) - 1
