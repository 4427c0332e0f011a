"""Sentences for people about decisions. They say nothing that `explanations` does not also hold in fields."""

from __future__ import annotations

from collections.abc import Iterator

from app.domain.budgets import Budget
from app.domain.events import (
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
)
from app.domain.numbers import is_told_whole, number_text, share_text
from app.domain.risks import floor_in_words, longest_in_words, risk_of_basis
from app.domain.times import at_least_text, length_text, time_text
from app.domain.values import (
    Acceptable,
    Basis,
    DecisionOutcome,
    EvictionReason,
    Forecast,
    Guarantee,
    Market,
    Rejection,
)
from app.explaining.rules.bookwords import admitted_in_words, refused_in_words
from app.explaining.rules.evictionwords import eviction_in_words
from app.explaining.rules.explanations import (
    Decided,
    Explanation,
    PromiseStatus,
)
from app.explaining.rules.groupwords import (
    asked_text,
    names_text,
    no_capacity_text,
    places_text,
    resources_text,
    slots_text,
    spot_instances_text,
)
from app.explaining.rules.noticewords import (
    course_in_words,
    grace_in_words,
    room_in_brief,
    room_in_words,
)
from app.explaining.rules.promisewords import promise_in_words
from app.explaining.rules.quotawords import refused_by_quota
from app.explaining.rules.riskwords import estimate_in_words
from app.explaining.rules.roomwords import held_in_words
from app.explaining.rules.wantwords import given_in_words, lifetime_in_words
from app.scheduling.rules.instances import moved

# --- one instance ----------------------------------------------------------------------------------------------------


def explain_in_words(explanation: Explanation) -> Iterator[str]:
    """Tell the whole story of an instance, in a sentence or two for each step."""
    decision, end = explanation.instance.decision, explanation.instance.end
    yield _request(explanation)
    if isinstance(decision, InstanceRejected):
        yield from _rejection(explanation, decision)
        return
    yield from _acceptance(explanation, decision)
    yield from given_in_words(decision, is_running=end is None)
    yield from room_in_words(decision)
    yield from course_in_words(explanation, decision)
    if isinstance(end, InstanceStopped) and end.aborted:
        yield f"Aborted at {time_text(end.at_us)}: it never ran, its controller says, so it does not count as admitted."
    elif isinstance(end, InstanceStopped):
        yield f"Stopped at {time_text(end.at_us)} by its owner, after {at_least_text(end.at_us - decision.at_us)}."
    elif isinstance(end, InstanceEvicted) and explanation.eviction is not None:
        yield from eviction_in_words(explanation.eviction, moved(decision, explanation.instance.move))
        if explanation.grace is not None:
            yield grace_in_words(explanation.grace, explanation.as_of_us)
    else:
        ran = at_least_text(explanation.as_of_us - decision.at_us)
        where = places_text(decision.nodes or (explanation.instance.node or "",))
        yield f"Still running on {where} after {ran}."
    yield from promise_in_words(explanation, explanation.instance.as_extended)


def _request(explanation: Explanation) -> str:
    decision = explanation.instance.decision
    asked = asked_text(decision, resources_text(explanation.required))
    return f"At {time_text(decision.at_us)} {asked} was asked for{lifetime_in_words(decision)}."


def _acceptance(explanation: Explanation, decision: InstanceStarted) -> Iterator[str]:
    where = places_text(decision.places)
    if decision.observed:
        yield f"Its controller saw it run on {where}, so nothing was decided; on-demand instances are never evicted."
        if decision.victims:
            yield f"{spot_instances_text(len(decision.victims))} had to go there: {names_text(decision.victims)}."
        return
    if decision.market is Market.ON_DEMAND:
        yield f"Accepted on {where}; on-demand instances are never evicted."
        yield from _cost(decision)
        return
    if explanation.room is not None:
        yield from held_in_words(explanation.room, decision)
        return
    if decision.victims:
        yield from _cost(decision)
    if explanation.policy.guarantee is Guarantee.NONE or decision.basis is None:
        yield f"Accepted on {where}, because it fitted; no SLA was in force, so nothing was promised."
    elif decision.basis.budget is not None:
        yield f"Accepted on {where}: {_budgeted(decision.basis, decision.basis.budget)}"
        yield from estimate_in_words(explanation, decision.basis)
    elif decision.basis.book is not None:
        first, *others = admitted_in_words(decision.basis, decision.basis.book)
        yield from (f"Accepted on {where}: {first}", *others)
        yield from estimate_in_words(explanation, decision.basis)
    else:
        yield f"Accepted on {where}: {_quoted(explanation, decision.basis)}, longer than was declared."
        yield from estimate_in_words(explanation, decision.basis)


def _cost(decision: InstanceStarted) -> Iterator[str]:
    if decision.victims:
        who = spot_instances_text(len(decision.victims))
        node = "No open node that its caller named" if decision.allowed else "No open node"
        yield f"{node} had room for it, so {who} had to go: {names_text(decision.victims)}."


def _rejection(explanation: Explanation, decision: InstanceRejected) -> Iterator[str]:
    basis = decision.basis
    match decision.reason:
        case Rejection.NO_CAPACITY:
            yield no_capacity_text(decision, displaces=explanation.policy.displaces_overrunning)
        case Rejection.QUOTA_EXCEEDED | Rejection.OVERRUNNING if basis is not None and basis.quota is not None:
            yield f"Rejected: {refused_by_quota(decision.owner, basis.quota, basis.book)}."
        case Rejection.QUOTES_STALE:
            yield (
                f"Rejected: the newest table of quotes{_of_epoch(explanation, basis)} was older than the policy's "
                f"{length_text(explanation.policy.table_max_age_us)}, so nothing could be promised."
            )
        case Rejection.NO_HISTORY:
            yield f"Rejected: {_no_history(explanation, decision)}, so nothing could be promised."
            yield from _first_table(explanation, decision)
        case Rejection.SLA_UNATTAINABLE if basis is not None:
            yield f"Rejected: {_quoted(explanation, basis)}, not longer than was declared."
            yield from estimate_in_words(explanation, basis)
            yield from _acceptable(explanation.acceptable)
        case Rejection.BUDGET_EXHAUSTED if basis is not None and basis.budget is not None:
            yield f"Rejected: {_budgeted(basis, basis.budget)}"
            yield from estimate_in_words(explanation, basis)
            yield from _acceptable(explanation.acceptable)
        case Rejection.BUDGET_EXHAUSTED if basis is not None and basis.book is not None:
            first, *others = refused_in_words(basis, basis.book)
            yield from (f"Rejected: {first}", *others)
            yield from estimate_in_words(explanation, basis)
            yield from _acceptable(explanation.acceptable, of_book=True)
        case Rejection.TOO_FEW_WINDOWS if basis is not None and basis.floor is not None:
            yield f"Rejected: {floor_in_words(basis)}."
            yield from estimate_in_words(explanation, basis)
            yield from _acceptable(explanation.acceptable)
        case other:
            yield f"Rejected: {other.value}."


def _quoted(explanation: Explanation, basis: Basis) -> str:
    """Say what the table contributed to a decision, as half a sentence."""
    own = explanation.instance.decision.probability is not None
    promised = f"{_percent(basis.probability)} ({'asked for by the start itself' if own else 'the SLA of the cloud'})"
    quoted = (
        "no lifetime" if not basis.quoted_lifetime_us else f"a lifetime of {at_least_text(basis.quoted_lifetime_us)}"
    )
    return (
        f"with {slots_text(basis, explanation.instance.decision.count)}, the table{_of_epoch(explanation, basis)} "
        f"guaranteed {quoted} at an eviction probability of {promised}"
    )


def _budgeted(basis: Basis, budget: Budget) -> str:
    """Say what the pooled guarantee contributed to a decision."""
    counted = (
        f"it counted with {_percent(budget.risk)}, its risk or what so short a history leaves open if that is more, "
        f"at a promise of {_percent(basis.probability)}. "
    )
    if budget.evicted_core_hours is not None:
        return (
            f"{counted}The budget of all who have this promise allowed {number_text(budget.earned)} core-hours to be "
            f"evicted; {number_text(budget.evicted_core_hours)} had been, {number_text(budget.committed)} were set "
            f"aside for what ran, and this start was to be charged {number_text(budget.charge)} of the "
            f"{number_text(budget.weight)} that it declared."
        )
    return (
        f"{counted}The budget of all who "
        f"have this promise allowed {number_text(budget.earned)} evictions; {budget.evicted} had happened, "
        f"{number_text(budget.committed)} were set aside for what ran, and this start was to be charged "
        f"{number_text(budget.charge)}."
    )


def _acceptable(instead: Acceptable | None, *, of_book: bool = False) -> Iterator[str]:
    ways = []
    if instead is not None and instead.probability is not None:
        more = "" if is_told_whole(instead.probability) else " or a little more"
        ways.append(f"this lifetime at an eviction probability of {_percent(instead.probability)}{more}")
    if instead is not None and instead.lifetime_us is not None:
        ways.append(f"at this eviction probability {longest_in_words(instead.lifetime_us, of_book=of_book)}")
    yield f"Would have been accepted: {', or '.join(ways)}." if ways else "No lifetime would have been accepted."


def _no_history(explanation: Explanation, decision: InstanceRejected) -> str:
    warm_up_us = explanation.policy.warm_up_us
    if decision.at_us - explanation.created_us < warm_up_us:
        until = time_text(explanation.created_us + warm_up_us)
        return f"the cloud was still warming up (for its first {length_text(warm_up_us)}, until {until})"
    if decision.basis is None or decision.basis.epoch is None:
        return "no table of quotes was published yet"
    if explanation.policy.forecast is Forecast.CALIBRATED:
        return f"the table{_of_epoch(explanation, decision.basis)} holds nothing of the calibrated forecast"
    return f"the table{_of_epoch(explanation, decision.basis)} had seen nothing of this flavor"


def _first_table(explanation: Explanation, decision: InstanceRejected) -> Iterator[str]:
    """Say when the first table is due and how to get one, if the start was refused for want of it."""
    due_us = explanation.policy.first_due_us(explanation.created_us)
    is_warm = decision.at_us >= explanation.created_us + explanation.policy.warm_up_us
    if due_us is None or not is_warm or (decision.basis is not None and decision.basis.epoch is not None):
        return
    if explanation.as_of_us < due_us:
        yield f"The first is due at {time_text(due_us)}; POST .../tables of the cloud asks for one at once."
    elif decision.at_us < due_us:
        yield f"The first was due at {time_text(due_us)}."
    else:
        yield "A worker (tenure worker) computes the first; tenure status tells what the workers do."


def _of_epoch(explanation: Explanation, basis: Basis | None) -> str:
    if basis is None or basis.epoch is None:
        return ""
    ground = explanation.ground
    until = "" if ground is None else f" (of the history up to {time_text(ground.epoch_us)})"
    return f" of epoch {basis.epoch}{until}"


# --- many decisions --------------------------------------------------------------------------------------------------


def tell(decided: Decided) -> str:
    """Tell one decision in one sentence."""
    match decided.outcome:
        case DecisionOutcome.ACCEPTED:
            return _accepted(decided)
        case DecisionOutcome.REJECTED:
            return f"Rejected: {_refusal(decided)}{_wanted(decided)}."
        case DecisionOutcome.EXTENDED | DecisionOutcome.EXTENSION_REJECTED:
            return decided.sentence
        case DecisionOutcome.STOPPED:
            return f"Stopped after {at_least_text(decided.ran_us or 0)}{_of_declared(decided)}."
        case _:
            ran = at_least_text(decided.ran_us or 0)
            broken = "; the promise is broken" if decided.promise is PromiseStatus.BROKEN else ""
            return f"Evicted{_for_whom(decided)} after {ran}{_of_declared(decided)}{broken}."


_REASONS = {
    Rejection.NO_CAPACITY.value: "no node had room",
    Rejection.SLA_UNATTAINABLE.value: "the SLA was out of reach",
    Rejection.BUDGET_EXHAUSTED.value: "what its promise had left did not pay for its risk",
    Rejection.QUOTA_EXCEEDED.value: "its owner's quota was used up",
    Rejection.OVERRUNNING.value: "too many cores of its owner overran",
    Rejection.NO_HISTORY.value: "there was no forecast yet to promise anything by",
    Rejection.QUOTES_STALE.value: "the quotes were too old to promise anything",
    Rejection.TOO_FEW_WINDOWS.value: "the estimate rested on too few windows to promise anything",
}


def _refusal(decided: Decided) -> str:
    reason, basis = str(decided.reason), decided.basis
    if reason == Rejection.BUDGET_EXHAUSTED.value and basis is not None and basis.book is not None:
        return "the book of its stratum of lifetimes did not pay for its risk"
    if reason == Rejection.NO_CAPACITY.value and decided.names_nodes:
        return "none of the nodes that it named had room"
    return _REASONS.get(reason, reason)


def _accepted(decided: Decided) -> str:
    if decided.market is Market.ON_DEMAND:
        cost = f", at the cost of {spot_instances_text(len(decided.victims))}" if decided.victims else ""
        return f"Accepted on {places_text(decided.places)}{cost}{room_in_brief(decided)}."
    return f"Accepted on {places_text(decided.places)}{_wanted(decided)}{room_in_brief(decided)}."


def _wanted(decided: Decided) -> str:
    """Say what was quoted to a spot start and what it asked for."""
    if decided.market is Market.ON_DEMAND or decided.lifetime_us is None:
        return ""
    asked = f" for at most {at_least_text(decided.lifetime_us)}"
    if decided.wanted is not None and decided.outcome is DecisionOutcome.REJECTED:
        asked = f" even for {at_least_text(decided.lifetime_us)}"
    basis = decided.basis
    if basis is None or basis.epoch is None or basis.probability is None:
        return asked
    quoted = at_least_text(basis.quoted_lifetime_us) if basis.quoted_lifetime_us else "nothing"
    risk = risk_of_basis(basis)
    risked = "" if risk is None else f", and its risk was {risk}"
    is_paid = decided.outcome is DecisionOutcome.ACCEPTED and basis.is_beyond
    paid = ", more than is promised for all such starts together, which its book could bear" if is_paid else ""
    return f"{asked}; quoted was {quoted} at {_percent(basis.probability)}{risked}{paid}"


def _of_declared(decided: Decided) -> str:
    return "" if decided.lifetime_us is None else f" of {at_least_text(decided.lifetime_us)} declared"


def _for_whom(decided: Decided) -> str:
    if decided.reason is EvictionReason.NODE_REMOVED:
        return f" because {decided.removed or 'its node'} was removed,"
    if decided.reason is EvictionReason.NODE_RESIZED:
        return f" because {decided.removed or 'its node'} has less capacity,"
    if decided.reason is EvictionReason.DRILL:
        return " in a drill"
    return f" for {decided.cause_id}," if decided.cause_id else ""


# --- words -----------------------------------------------------------------------------------------------------------


def _percent(probability: float | None) -> str:
    return "-" if probability is None else share_text(probability)
