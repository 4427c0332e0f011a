"""Alternative requests that would have been accepted in place of a rejected one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import ROUND_CEILING, Context

from app.admission.bounds import is_out_of_bounds
from app.admission.strata import longest_us
from app.domain.events import ExtensionDecision, ExtensionRejected, InstanceRejected, StartDecision
from app.domain.requests import StartRequest
from app.domain.strata import stratum_index, stratum_span
from app.domain.values import Acceptable, Basis, Guarantee, Policy, Rejection

BY_PROMISE = frozenset({Rejection.SLA_UNATTAINABLE, Rejection.BUDGET_EXHAUSTED, Rejection.TOO_FEW_WINDOWS})
"""The refusals in whose place another lifetime or another promise may be accepted."""
_ROUNDING = Context(prec=2, rounding=ROUND_CEILING)
"""Proposed promises have two digits: each promise is a class of its own, and a cloud has few of them."""


def find_acceptable(
    request: StartRequest, basis: Basis, refusal: Rejection, policy: Policy, admits: Callable[[StartRequest], bool]
) -> Acceptable:
    """Return the alternatives to a start that was refused for its promise.

    `admits` judges a request in the state that refused the start, so whatever is told would have been accepted there.
    """

    def is_accepted(other: StartRequest) -> bool:
        return not is_out_of_bounds(policy, other) and admits(other)

    def is_accepted_for(shorter_us: int) -> bool:
        return is_accepted(replace(request, lifetime_us=shorter_us))

    lifetime_us = _longest_us(basis, refusal)
    if not lifetime_us or not is_accepted_for(lifetime_us):
        lifetime_us = _longest_of_strata(policy, lifetime_us or 0, is_accepted_for)
    promises = () if refusal is Rejection.TOO_FEW_WINDOWS else _laxer(basis)
    laxer = (one for one in promises if is_accepted(replace(request, eviction_probability=one)))
    return Acceptable(lifetime_us, next(laxer, None))


def _longest_of_strata(policy: Policy, below_us: int, admits: Callable[[int], bool]) -> int | None:
    """Return the longest lifetime below one that is refused, for its owner's share of a book; None if there is none.

    Each stratum has a book of its own, so the longest one is tried first.
    """
    if policy.guarantee is not Guarantee.STRATIFIED or below_us <= policy.shortest_lifetime_us:
        return None
    for stratum in range(stratum_index(below_us, policy.strata_us), -1, -1):
        from_us, end_us = stratum_span(stratum, policy.strata_us)
        low_us = max(from_us, policy.shortest_lifetime_us, 1)
        found = longest_us(low_us, min(below_us, end_us or below_us) - 1, admits)
        if found is not None:
            return found
    return None


def acceptable_instead(decision: StartDecision) -> Acceptable | None:
    """Return the acceptable alternatives; None if the start was accepted, or rejected for another reason than these.

    A log before format 5 does not hold them. They are then told as they were: under `stratified` twice the risk, which
    even a book in debt bears, and under the others the risk itself.
    """
    basis = decision.basis
    if not isinstance(decision, InstanceRejected) or basis is None or decision.reason not in BY_PROMISE:
        return None
    if decision.acceptable is not None:
        return decision.acceptable
    laxer = ((2 if basis.book else 1) * risk for risk in _risk(basis))
    return Acceptable(_longest_us(basis, decision.reason), next((one for one in laxer if 0 < one < 1), None))


def _longest_us(basis: Basis, refusal: Rejection) -> int | None:
    """Return the longest lifetime that the figures of a refusal allow, None if there is none.

    Under `per_instance` lifetimes below the quoted one are accepted, so the longest is a microsecond shorter.
    """
    if refusal is Rejection.SLA_UNATTAINABLE:
        return basis.quoted_lifetime_us - 1 if basis.quoted_lifetime_us else None
    account = basis.floor or basis.book or basis.budget
    return (account.affordable_us or None) if account is not None else None


def _laxer(basis: Basis) -> tuple[float, ...]:
    """Return the laxer promises to try: the risk itself, and twice the risk, which even an account in debt bears.

    Each is tried rounded up first.
    """
    enough = (factor * risk for risk in _risk(basis) for factor in (1, 2))
    tried = (promise for exact in enough for promise in (rounded_up(exact), exact))
    return tuple(promise for promise in tried if (basis.probability or 0.0) < promise < 1)


def rounded_up(probability: float) -> float:
    """Return the least number with two digits that is not below a probability."""
    return float(_ROUNDING.create_decimal(repr(probability)))


def _risk(basis: Basis) -> tuple[float, ...]:
    """Return the risk that the guarantee judged, if it is known."""
    risk = basis.estimated_probability if basis.budget is None else basis.budget.risk
    return () if risk is None else (risk,)


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
