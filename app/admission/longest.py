"""The longest lifetime that can be promised, to a start or to a running instance that wants as much as there is.

A refusal tells the longest lifetime that would be accepted in its place. So the longest one is found by asking for
what is wanted, then for what the refusal tells, and is then judged like any other. What a book would pay for beyond the
promise is taken for a refusal: nobody is offered more risk than was promised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from app.admission.acceptable import acceptable_instead, acceptable_lifetime_us
from app.admission.bounds import check_wanted
from app.admission.extend import decide_extension
from app.admission.floor import is_paid
from app.admission.quote import Quotes
from app.domain.events import (
    Event,
    ExtensionDecision,
    ExtensionRejected,
    InstanceExtended,
    InstanceRejected,
    InstanceStarted,
    PromiseEnding,
    StartDecision,
)
from app.domain.requests import ExtendRequest, StartRequest
from app.domain.strata import stratum_index, stratum_span
from app.domain.times import MAX_TIME_US, SECOND_US
from app.domain.values import Acceptable, Policy, QuotaKind, Rejection
from app.domain.wanted import Wanted
from app.engine.cloud import MINUTE_US, Cloud, Want

Decision = TypeVar("Decision", StartDecision, ExtensionDecision)
Judge = Callable[[StartRequest], StartDecision]

SHORTEST_US = MINUTE_US
"""Nothing shorter is promised to a start that names no minimum."""
LEAST_GAIN_US = 10 * MINUTE_US
LEAST_GAIN = 0.5
"""An automatic extension lengthens what is left by this share of it at least, and by ten minutes."""
_TRIES = 4
"""The number of lifetimes that are asked for, one after the other."""
_HALVINGS = 12
"""A refusal for an owner's share tells no lifetime. So often what lies between one that is within it and one that is
not is halved.
"""


def decide_wanted(
    request: StartRequest, wanted: Wanted, policy: Policy, at_us: int, decide: Judge, explore: Judge
) -> StartDecision:
    """Return the decision on a start that takes what it can be promised. `decide` judges one that declares a lifetime.

    `explore` does too, and its refusals tell the lifetime that would do wherever the start may get room. The start is
    refused if not even its minimum can be promised, and then tells what would be.
    """
    check_wanted(policy, wanted)

    def declaring(lifetime_us: int) -> StartRequest:
        return replace(request, lifetime_us=lifetime_us, wanted=None)

    shortest_us = min(SHORTEST_US, policy.longest_lifetime_us or SHORTEST_US)
    least_us = max(wanted.min_lifetime_us or shortest_us, policy.shortest_lifetime_us)
    most_us = max(_furthest_us(wanted, policy, at_us, at_us), least_us)

    def exploring(lifetime_us: int) -> StartDecision:
        return explore(declaring(lifetime_us))

    def promising(lifetime_us: int) -> StartDecision:
        return _unpaid(explore(replace(declaring(lifetime_us), owner=None, for_project=False)))

    decision, limited_by = _longest(most_us, least_us, promising, _instead_of_start)
    if isinstance(decision, InstanceStarted) and request.account is not None:
        decision = exploring(decision.lifetime_us or 0)
        if _is_beyond_share(decision):
            limited_by = Rejection.QUOTA_EXCEEDED
            decision = _longest_within_share(decision, least_us, policy.strata_us, exploring)
    if isinstance(decision, InstanceStarted):
        return replace(decision, wanted=wanted, limited_by=limited_by)
    least = decide(declaring(least_us))
    if isinstance(least, InstanceStarted):  # nobody is offered what its book pays for, but a minimum may be paid for
        return replace(least, wanted=wanted, limited_by=decision.reason if wanted.exceeds(least_us) else None)
    return replace(least, wanted=wanted)


def _unpaid(decision: StartDecision) -> StartDecision:
    """Return the decision, but for a start that its book pays for the refusal that tells what is within its promise.

    That is shorter than what was paid for, also where a quote is not exact to the last digit of its risk.
    """
    basis = decision.basis
    if not isinstance(decision, InstanceStarted) or basis is None or not is_paid(basis):
        return decision
    return InstanceRejected(
        at_us=decision.at_us,
        instance_id=decision.instance_id,
        market=decision.market,
        flavor=decision.flavor,
        reason=Rejection.BUDGET_EXHAUSTED,
        lifetime_us=decision.lifetime_us,
        probability=decision.probability,
        basis=basis,
        acceptable=Acceptable(min((basis.quoted_lifetime_us or 0) - 1, (decision.lifetime_us or 0) - SECOND_US), None),
    )


def _unpaid_extension(decision: ExtensionDecision) -> ExtensionDecision:
    """Do the same with an extension."""
    basis = decision.basis
    if not isinstance(decision, InstanceExtended) or basis.book is None or not is_paid(basis):
        return decision
    age_us = decision.at_us - (decision.deadline_us - decision.lifetime_us)
    within_us = min(age_us + (basis.quoted_lifetime_us or 0) - 1, decision.lifetime_us - SECOND_US)
    return ExtensionRejected(
        at_us=decision.at_us,
        instance_id=decision.instance_id,
        lifetime_us=decision.lifetime_us,
        former_lifetime_us=decision.former_lifetime_us,
        deadline_us=decision.deadline_us - decision.lifetime_us + decision.former_lifetime_us,
        reason=Rejection.BUDGET_EXHAUSTED,
        basis=replace(basis, book=replace(basis.book, admitted_by=None, affordable_us=within_us)),
        total_risk=decision.total_risk,
    )


def _is_beyond_share(decision: StartDecision | ExtensionDecision) -> bool:
    quota = None if decision.basis is None else decision.basis.quota
    return quota is not None and quota.kind is QuotaKind.SHARE


def _longest_within_share(
    refused: Decision, least_us: int, strata_us: Sequence[int], judge: Callable[[int], Decision]
) -> Decision:
    """Return the decision on the longest lifetime found that is within its owner's share, or else the refusal.

    What is refused is within the promise. Each stratum has a share of its own, so the longest one is tried first.
    """
    refused_us = refused.lifetime_us or 0
    for stratum in range(stratum_index(refused_us, strata_us), stratum_index(least_us, strata_us) - 1, -1):
        from_us, below_us = stratum_span(stratum, strata_us)
        low_us = max(least_us, -(-from_us // SECOND_US) * SECOND_US)
        high_us = min(refused_us, MAX_TIME_US if below_us is None else below_us)
        found = judge(low_us) if low_us < high_us else refused
        if not isinstance(found, InstanceRejected | ExtensionRejected):
            return _lengthened(found, low_us, high_us, judge)
    return refused


def _lengthened(found: Decision, low_us: int, high_us: int, judge: Callable[[int], Decision]) -> Decision:
    """Return the decision on the longest lifetime found from `low_us`, which is accepted, to below `high_us`."""
    for _ in range(_HALVINGS):
        middle_us = (low_us + high_us) // 2 // SECOND_US * SECOND_US
        if middle_us <= low_us:
            break
        decision = judge(middle_us)
        if isinstance(decision, InstanceRejected | ExtensionRejected):
            high_us = middle_us
        else:
            low_us, found = middle_us, decision
    return found


def decide_look(cloud: Cloud, want: Want, at_us: int, quotes: Quotes | None) -> Event | None:
    """Return what comes of looking at an instance that wants a longer lifetime: its extension, or the notice that it
    gets none if this is the last look before its promise ends; None if neither.
    """
    is_last, left_us = at_us >= want.last_look_us(cloud.policy.grace_us), want.deadline_us - at_us
    reason: Rejection | None = None
    if left_us >= 0:
        gain_us = max(LEAST_GAIN_US, int(LEAST_GAIN * left_us))
        with cloud.still():
            decision = _decide_longer(cloud, want, gain_us, at_us, quotes)
        if isinstance(decision, InstanceExtended):
            return decision
        reason = None if decision is None else decision.reason
    if not is_last:
        return None
    lifetime_us = want.deadline_us - want.started_us
    return PromiseEnding(
        at_us=at_us,
        instance_id=want.instance_id,
        lifetime_us=lifetime_us,
        deadline_us=want.deadline_us,
        reason=reason,
    )


def _decide_longer(
    cloud: Cloud, want: Want, gain_us: int, at_us: int, quotes: Quotes | None
) -> ExtensionDecision | None:
    """Return the longest extension, or why there is none that gains enough; None if it may have no more yet."""
    most_us = _furthest_us(want.wanted, cloud.policy, want.started_us, at_us)
    least_us = want.deadline_us - want.started_us + gain_us
    if want.wanted.lifetime_us is not None:
        least_us = min(least_us, want.wanted.lifetime_us)
    least_us = max(least_us, cloud.policy.shortest_lifetime_us)
    if most_us < least_us:
        return None

    def judge(lifetime_us: int, *, by_share: bool = True) -> ExtensionDecision:
        request = ExtendRequest(want.instance_id, lifetime_us)
        (decision,) = decide_extension(cloud, request, at_us, quotes, by_share=by_share)
        return _unpaid_extension(decision)

    decision, limited_by = _longest(most_us, least_us, partial(judge, by_share=False), acceptable_lifetime_us)
    if isinstance(decision, InstanceExtended):
        decision = judge(decision.lifetime_us)
        if _is_beyond_share(decision):  # it stays in one book, so all its lifetimes are of one share
            limited_by, decision = Rejection.QUOTA_EXCEEDED, _longest_within_share(decision, least_us, (), judge)
    if isinstance(decision, ExtensionRejected):
        return decision
    return replace(decision, is_automatic=True, limited_by=limited_by)


def _longest(
    most_us: int, least_us: int, judge: Callable[[int], Decision], instead: Callable[[Decision], int | None]
) -> tuple[Decision, Rejection | None]:
    """Return the decision on the longest lifetime that is accepted, and why it is not `most_us`.

    If none of at least `least_us` is found, the decision is a refusal.
    """
    decision, limited_by = judge(most_us), None
    for _ in range(_TRIES):
        if not isinstance(decision, InstanceRejected | ExtensionRejected):
            break
        longest_us = instead(decision) or 0
        if longest_us < least_us:
            break
        limited_by = decision.reason
        decision = judge(max(longest_us - longest_us % SECOND_US, least_us))
    if limited_by is Rejection.TOO_FEW_WINDOWS and not isinstance(decision, InstanceRejected | ExtensionRejected):
        longer = judge((decision.lifetime_us or 0) + SECOND_US)  # what had too few windows told what is promised too
        limited_by = longer.reason if isinstance(longer, InstanceRejected | ExtensionRejected) else limited_by
    return decision, limited_by


def _furthest_us(wanted: Wanted, policy: Policy, started_us: int, at_us: int) -> int:
    """Return the longest lifetime to ask for: the one wanted, or one that ends at the horizon of the forecast.

    It is within the longest that the policy allows.
    """
    furthest_us = wanted.lifetime_us
    if furthest_us is None:
        furthest_us = min(at_us - started_us + policy.horizon_us, MAX_TIME_US - started_us)
        furthest_us -= furthest_us % SECOND_US
    return min(furthest_us, policy.longest_lifetime_us or furthest_us)


def _instead_of_start(decision: StartDecision) -> int | None:
    found = acceptable_instead(decision)
    return None if found is None else found.lifetime_us
