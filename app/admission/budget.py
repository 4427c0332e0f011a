"""The pooled guarantee: of all instances promised an eviction probability p, at most the share p is evicted.

Every admission earns p, every running instance is charged for its exposure (engine.exposure), and every eviction
costs 1. While evicted + charges <= earned, a load as high as ever seen can evict everything that it would reach and
the promise is still kept. So the budget survives bursts, not only the mean.

If the policy's budget counts core-hours, all of this is multiplied by those that an instance declares, its weight. Then
a start that weighs more than two usual ones and than what is left is admitted for a risk of half as much at most.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from app.admission.quote import Quotes
from app.admission.strata import HEAVY, longest_us
from app.domain.budgets import Budget
from app.domain.requests import StartRequest
from app.engine.books import core_hours_of
from app.engine.cloud import ClassCounts, Cloud
from app.engine.exposure import charge, unseen

EXPOSED_SHARE = 0.8
"""The share of the earnings that exposed instances may use. The rest is for those that become exposed later, when
the on-demand load exceeds its highest value so far.
"""


class _Class(NamedTuple):
    """The outcomes of a class: counts of instances, and the core-hours that they declare; None if these do not count.

    `committed`: the charges of its running instances.
    """

    admitted: int
    evicted: int
    committed: float
    core_hours: float | None = None
    evicted_core_hours: float | None = None

    def budget(self, probability: float, cores: int, lifetime_us: int, share: float, risk: float) -> Budget:
        """Return the budget with a start in it that is charged this share of its weight."""
        if self.core_hours is None:
            earned = probability * (self.admitted + 1)
            return Budget(earned, self.evicted, self.committed, share, risk)
        own = core_hours_of(cores, lifetime_us)
        return Budget(
            probability * (self.core_hours + own),
            self.evicted,
            self.committed,
            own * share,
            risk,
            core_hours=own,
            mean_core_hours=self.core_hours / self.admitted if self.admitted else 0.0,
            evicted_core_hours=self.evicted_core_hours,
        )


def read_budget(
    cloud: Cloud, request: StartRequest, probability: float, estimate: float, slots: int, quotes: Quotes, at_us: int
) -> Budget:
    """Return the budget of a start's class, with the start's own charge and risk.

    `estimate` is the table's eviction probability for the lifetime L. The risk is at least L / (seen + L), the
    probability that the next L bring something that the history does not show.
    """
    lifetime_us, seen_us = request.lifetime_us or 0, at_us - cloud.created_us
    cores = request.count * cloud.flavors[request.flavor].resources.cores
    committed, reached = cloud.exposure(request.flavor, probability, at_us, request.count)
    hours = cloud.core_hours_of(probability) if cloud.counts_core_hours else ()
    of_class = _Class(*cloud.classes.get(probability, ClassCounts()), committed, *hours)

    def budget_of(length_us: int, estimated: float) -> Budget:
        share, risk = charge(reached, length_us, seen_us), max(estimated, unseen(length_us, seen_us))
        return of_class.budget(probability, cores, length_us, share, risk)

    budget = budget_of(lifetime_us, estimate)
    if affords(budget, probability):
        return budget
    if cloud.counts_core_hours:

        def admits(shorter_us: int) -> bool:
            estimated = quotes.probability(request.flavor, slots, shorter_us)
            return estimated is not None and affords(budget_of(shorter_us, estimated), probability)

        return replace(budget, affordable_us=longest_us(0, lifetime_us - 1, admits) or 0)
    certified_us = quotes.lifetime_us(request.flavor, slots, bearable(budget, probability)) or 0
    return replace(budget, affordable_us=_affordable_us(budget, probability, certified_us, reached, seen_us))


def affords(budget: Budget, probability: float) -> bool:
    """Return True if the start may be admitted.

    It may if its risk is within what it earns (half of that if the class is in debt), or if the budget can pay its
    charge beside all evictions and charges so far.
    """
    exposed = budget.charge >= budget.weight
    return budget.risk <= bearable(budget, probability) or budget.charge <= _spare(budget, exposed=exposed)


def bearable(budget: Budget, probability: float) -> float:
    """Return the risk that a start may have regardless of the rest of the budget."""
    return probability / 2 if budget.spent > budget.earned or _is_heavy(budget) else probability


def _is_heavy(budget: Budget) -> bool:
    """Return True if a start weighs more than two usual ones, and than what the budget could pay."""
    usual = budget.mean_core_hours or budget.weight
    return budget.weight > max(HEAVY * usual, _spare(budget, exposed=False))


def _spare(budget: Budget, *, exposed: bool) -> float:
    """Return the part of the budget that a start's charge may use."""
    return (EXPOSED_SHARE if exposed else 1.0) * budget.earned - budget.spent - budget.committed


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
