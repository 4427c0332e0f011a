"""The pooled guarantee: of all instances promised an eviction probability p, at most the share p is evicted.

Every admission earns p, every running instance is charged for its exposure (engine.exposure), and every eviction
costs 1. While evicted + charges <= earned, a load as high as ever seen can evict everything that it would reach and
the promise is still kept. So the budget survives bursts, not only the mean.
"""

from __future__ import annotations

from dataclasses import replace

from app.admission.quote import Quotes
from app.domain.requests import StartRequest
from app.domain.values import Budget
from app.engine.cloud import ClassCounts, Cloud
from app.engine.exposure import charge, unseen

EXPOSED_SHARE = 0.8
"""The share of the earnings that exposed instances may use. The rest is for those that become exposed later, when
the on-demand load exceeds its highest value so far.
"""


def read_budget(
    cloud: Cloud, request: StartRequest, probability: float, estimate: float, slots: int, quotes: Quotes, at_us: int
) -> Budget:
    """Return the budget of a start's class, with the start's own charge and risk.

    `estimate` is the table's eviction probability for the lifetime L. The risk is at least L / (seen + L), the
    probability that the next L bring something that the history does not show.
    """
    lifetime_us, seen_us = request.lifetime_us or 0, at_us - cloud.created_us
    admitted, evicted = cloud.classes.get(probability, ClassCounts())
    committed, reached = cloud.exposure(request.flavor, probability, at_us, request.count)
    budget = Budget(
        earned=probability * (admitted + 1),
        evicted=evicted,
        committed=committed,
        charge=charge(reached, lifetime_us, seen_us),
        risk=max(estimate, unseen(lifetime_us, seen_us)),
    )
    if affords(budget, probability):
        return budget
    certified_us = quotes.lifetime_us(request.flavor, slots, bearable(budget, probability)) or 0
    return replace(budget, affordable_us=_affordable_us(budget, probability, certified_us, reached, seen_us))


def affords(budget: Budget, probability: float) -> bool:
    """Return True if the start may be admitted.

    It may if its risk is within what it earns (half of that if the class is in debt), or if the budget can pay its
    charge beside all evictions and charges so far.
    """
    return budget.risk <= bearable(budget, probability) or budget.charge <= _spare(budget, exposed=budget.charge >= 1)


def bearable(budget: Budget, probability: float) -> float:
    """Return the risk that a start may have regardless of the rest of the budget."""
    return probability / 2 if budget.evicted > budget.earned else probability


def _spare(budget: Budget, *, exposed: bool) -> float:
    """Return the part of the budget that a start's charge may use."""
    return (EXPOSED_SHARE if exposed else 1.0) * budget.earned - budget.evicted - budget.committed


def _affordable_us(budget: Budget, probability: float, certified_us: int, reached: float, seen_us: int) -> int:
    """Return the longest lifetime that would be admitted in place of one that is too long; 0 if there is none.

    `certified_us`: below it the table's estimate is bearable; `reached`: the share of the room that the start reaches.
    """
    by_risk_us = min(certified_us - 1, unseen_at_most(bearable(budget, probability), seen_us))
    by_charge_us = unseen_at_most(_spare(budget, exposed=False) / reached, seen_us) if 0 < reached <= 1 else 0
    return max(by_risk_us, by_charge_us, 0)


def unseen_at_most(risk: float, seen_us: int) -> int:
    """Return the lifetime L with L / (seen + L) = risk, for a risk below 1."""
    return int(seen_us * risk / (1 - risk)) - 1
