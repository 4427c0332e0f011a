"""Alternative requests that would have been accepted in place of a rejected one."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.events import ExtensionDecision, ExtensionRejected, InstanceRejected, StartDecision
from app.domain.values import Rejection


@dataclass(frozen=True, slots=True)
class Acceptable:
    """The alternatives to a start that the SLA refused, each sufficient by itself; None: there is no such value."""

    lifetime_us: int | None
    probability: float | None


def acceptable_instead(decision: StartDecision) -> Acceptable | None:
    """Return the acceptable alternatives; None if the start was accepted, or rejected for another reason than the SLA.

    Under `per_instance` lifetimes below the quoted one are accepted, so the longest is a microsecond shorter. Under
    `pooled` a class that is not in debt accepts any start whose risk is at most the promised probability, and under
    `stratified` every book one whose risk is at most half of it.
    """
    basis = decision.basis
    if basis is not None and basis.floor is not None and isinstance(decision, InstanceRejected):
        return Acceptable(basis.floor.affordable_us or None, None) if _is_floor(decision) else None
    if basis is not None and basis.book is not None and isinstance(decision, InstanceRejected):
        if decision.reason is not Rejection.BUDGET_EXHAUSTED:
            return None
        enough = 2 * (basis.estimated_probability or 0.0)
        return Acceptable(basis.book.affordable_us or None, enough if 0 < enough < 1 else None)
    if basis is not None and basis.budget is not None and isinstance(decision, InstanceRejected):
        risk, affordable_us = basis.budget.risk, basis.budget.affordable_us
        if decision.reason is not Rejection.BUDGET_EXHAUSTED:
            return None
        return Acceptable(affordable_us or None, risk if risk < 1 else None)
    if not isinstance(decision, InstanceRejected) or decision.reason is not Rejection.SLA_UNATTAINABLE or not basis:
        return None
    quoted_us, estimate = basis.quoted_lifetime_us, basis.estimated_probability
    return Acceptable(quoted_us - 1 if quoted_us else None, estimate if estimate is not None and estimate < 1 else None)


def _is_floor(decision: InstanceRejected) -> bool:
    """Return True unless something else, like the want of room, refused the start before its floor did."""
    return decision.reason is Rejection.TOO_FEW_WINDOWS


def acceptable_lifetime_us(decision: ExtensionDecision) -> int | None:
    """Return the longest lifetime that would have been accepted in place of one refused; None if none longer was.

    Under `per_instance` it is a microsecond shorter than what was quoted for the rest.
    """
    if not isinstance(decision, ExtensionRejected):
        return None
    if decision.basis.floor is not None:
        return decision.basis.floor.affordable_us or None
    if decision.reason is Rejection.BUDGET_EXHAUSTED:
        account = decision.basis.book or decision.basis.budget
        return None if account is None else account.affordable_us
    quoted_us = decision.basis.quoted_lifetime_us
    if decision.reason is not Rejection.SLA_UNATTAINABLE or quoted_us is None:
        return None
    started_us = decision.deadline_us - decision.former_lifetime_us
    longest_us = decision.at_us - started_us + quoted_us - 1
    return longest_us if longest_us > decision.former_lifetime_us else None
