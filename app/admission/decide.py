"""Decides one request over a cloud's state, for live scheduling and for the trace evaluation alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from app.admission.acceptable import BY_PROMISE, find_acceptable
from app.admission.bounds import check_lifetime, check_probability
from app.admission.budget import affords, read_budget
from app.admission.floor import affordable_above, floor_above, windows_of
from app.admission.handovers import check_unconfirmed
from app.admission.limits import is_class_too_many
from app.admission.longest import decide_wanted
from app.admission.quota import REFUSALS, exceeded_by, has_overrun
from app.admission.quote import Quotes, quotes_in_force, slots_now
from app.admission.strata import read_book
from app.domain.errors import (
    DrillImpossible,
    GroupOnDemand,
    LifetimeMissing,
    NodeNotEmpty,
    ProbabilityUnexpected,
    TooManyEvictions,
)
from app.domain.events import (
    Event,
    EvictionConfirmed,
    EvictionOverdue,
    EvictionScheduled,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeRemoved,
    StartDecision,
)
from app.domain.flavors import check_flavor
from app.domain.requests import StartRequest
from app.domain.times import MAX_TIME_US
from app.domain.values import Basis, EvictionReason, Guarantee, Market, NodeStatus, Rejection
from app.engine.cloud import Cloud
from app.engine.outlook import slots_left

MOST_VICTIMS = 1000
"""The number of instances that one start may evict. Its answer names them all, and is in one piece."""
MOST_REMOVED = 10_000
"""The number of instances that the removal of a node may evict."""
_OF_A_NODE = {EvictionReason.NODE_REMOVED, EvictionReason.NODE_RESIZED}
MOST_HANDOVERS = 50_000
"""The number of evictions of a cloud that may be unconfirmed. The state keeps each until its deadline."""

MOST_NOTICES = 5000
"""The number of notices of one kind that are decided together: every process that serves the cloud folds them at once.
"""


def decide_start(cloud: Cloud, request: StartRequest, at_us: int, quotes: Quotes | None) -> Sequence[Event]:
    """Return the events that answer a start: evictions first, then one InstanceStarted or InstanceRejected."""
    check_flavor(cloud.flavors, request.flavor)
    if request.market is Market.ON_DEMAND:
        return _decide_on_demand(cloud, request, at_us)
    decide = partial(_decide_spot, cloud, at_us=at_us, quotes=quotes)
    explore = partial(_explore_spot, cloud, at_us=at_us, quotes=quotes)
    wanted, policy = request.wanted, cloud.policy
    with cloud.still():
        decision = decide(request) if wanted is None else decide_wanted(request, wanted, policy, at_us, decide, explore)
    victims = decision.victims if isinstance(decision, InstanceStarted) else ()
    check_unconfirmed(cloud, victims, request.account)
    return [*evictions(cloud, victims, at_us, EvictionReason.SPOT_START), decision]


def decide_stop(cloud: Cloud, instance_id: str, at_us: int) -> Sequence[Event]:
    """Return the event that answers a stop, or nothing if the instance is not running."""
    return [InstanceStopped(at_us=at_us, instance_id=instance_id)] if instance_id in cloud.running else []


def decide_node_removal(cloud: Cloud, node: str, at_us: int) -> Sequence[Event]:
    """Return the evictions of a node's spot instances, youngest first, and then its removal.

    Raises NodeNotEmpty if on-demand instances run on it.
    """
    running = cloud.on_node(node)
    on_demand = sum(instance.market is Market.ON_DEMAND for instance in running)
    if on_demand:
        many = "instance runs" if on_demand == 1 else "instances run"
        raise NodeNotEmpty(f"{on_demand} on-demand {many} on node {node!r}; drain it and wait for every stop")
    victims = [i.instance_id for i in reversed(running)]
    return [*evictions(cloud, victims, at_us, EvictionReason.NODE_REMOVED), NodeRemoved(at_us=at_us, node=node)]


def decide_drill(cloud: Cloud, instance_id: str | None, at_us: int) -> Sequence[Event]:
    """Return the eviction of one spot instance as a test: the named one, or the one started last.

    Raises DrillImpossible if there is no such instance.
    """
    return evictions(cloud, [drill_victim(cloud, instance_id)], at_us, EvictionReason.DRILL)


def drill_victim(cloud: Cloud, instance_id: str | None) -> str:
    """Return the id of the spot instance that a drill would evict: the named one, or the one started last.

    Raises DrillImpossible if the named one is not a running spot instance, or if none runs.
    """
    victim = cloud.running.get(instance_id) if instance_id else cloud.youngest_spot()
    if victim is None or victim.market is not Market.SPOT:
        what = f"{instance_id!r} is not a running spot instance" if instance_id else "no spot instance is running"
        raise DrillImpossible(f"{what}, so there is nothing to evict")
    return victim.instance_id


def _decide_on_demand(cloud: Cloud, request: StartRequest, at_us: int) -> Sequence[Event]:
    if request.count > 1:
        raise GroupOnDemand("an on-demand start has a count of 1: only spot instances are placed in groups")
    if request.eviction_probability is not None:
        raise ProbabilityUnexpected("an on-demand start carries no eviction_probability: it is never evicted")
    with cloud.only_on(request.nodes):
        node, victims = cloud.place_on_demand(request.flavor, at_us)
    if node is None:
        return [_rejected(cloud, request, at_us, Rejection.NO_CAPACITY, None)]
    check_unconfirmed(cloud, victims, request.account)
    gone = evictions(cloud, victims, at_us, EvictionReason.ON_DEMAND_START)
    return [*gone, accepted(cloud, request, at_us, (node,), None, victims)]


def _decide_spot(cloud: Cloud, request: StartRequest, at_us: int, quotes: Quotes | None) -> StartDecision:
    _check_spot(cloud, request)
    node, victims = _displaced(cloud, request, at_us)
    if node is not None:
        with cloud.without(victims):
            basis, refusal = _read_basis(cloud, request, at_us, quotes)
        if refusal is None:
            return accepted(cloud, request, at_us, (node,), basis, victims)
    basis, refusal = _read_basis(cloud, request, at_us, quotes)
    with cloud.only_on(request.nodes):
        nodes = cloud.fitting_nodes(request.flavor, request.count)
    if not nodes and basis.quota is None:
        refusal = Rejection.NO_CAPACITY
    if refusal is not None:
        return _refused(cloud, request, at_us, refusal, basis, quotes)
    return accepted(cloud, request, at_us, nodes, basis, ())


def _refused(
    cloud: Cloud, request: StartRequest, at_us: int, refusal: Rejection, basis: Basis, quotes: Quotes | None
) -> InstanceRejected:
    """Return the rejection of a spot start, with the alternatives that the same state would accept."""
    rejected = _rejected(cloud, request, at_us, refusal, basis)
    if refusal not in BY_PROMISE or quotes is None:
        return rejected
    forecast = quotes_in_force(quotes, cloud, [request.flavor], at_us)

    def admits(other: StartRequest) -> bool:
        shorter = other.lifetime_us != request.lifetime_us
        estimate = forecast.probability(request.flavor, basis.slots, other.lifetime_us or 0) if shorter else None
        figures = replace(basis, estimated_probability=estimate) if shorter else basis
        return not is_class_too_many(cloud, other) and _admits_instead(cloud, other, figures, forecast, at_us)

    instead = find_acceptable(request, basis, refusal, cloud.policy, admits)
    if basis.floor is not None:  # what has enough windows may be beyond the bounds, or its owner's share
        basis = replace(basis, floor=replace(basis.floor, affordable_us=instead.lifetime_us or 0))
    return replace(rejected, basis=basis, acceptable=instead)


def _admits_instead(cloud: Cloud, other: StartRequest, basis: Basis, quotes: Quotes, at_us: int) -> bool:
    """Return True if a start with another lifetime or promise than the refused one would have been admitted.

    `basis` has the estimate for its lifetime, but the figures of the promise that was refused.
    """
    promised = other.eviction_probability or basis.probability or 0.0
    quoted_us = basis.quoted_lifetime_us
    if cloud.policy.guarantee is Guarantee.PER_INSTANCE:
        quoted_us = quotes.lifetime_us(other.flavor, basis.slots, promised)
    figures = replace(basis, probability=promised, quoted_lifetime_us=quoted_us, book=None, budget=None)
    judged, refusal = _judge(cloud, other, figures, quotes, at_us)
    return refusal is None and exceeded_by(cloud, other, judged, at_us) is None


def _explore_spot(cloud: Cloud, request: StartRequest, at_us: int, quotes: Quotes | None) -> StartDecision:
    """Return what `_decide_spot` does, but a refusal in the room of overrunning instances as one of that room.

    Such a refusal tells the longest lifetime that would be accepted there. `_decide_spot` records that there is no room
    but theirs.
    """
    _check_spot(cloud, request)
    node, victims = _displaced(cloud, request, at_us)
    if node is None:
        return _decide_spot(cloud, request, at_us, quotes)
    with cloud.without(victims):
        basis, refusal = _read_basis(cloud, request, at_us, quotes)
        if refusal is not None:
            return _refused(cloud, request, at_us, refusal, basis, quotes)
    return accepted(cloud, request, at_us, (node,), basis, victims)


def _displaced(cloud: Cloud, request: StartRequest, at_us: int) -> tuple[str | None, tuple[str, ...]]:
    """Return the node where a start that fits nowhere takes the room of overrunning instances, and these.

    (None, ()) if it fits, or may not, or they do not make room.
    """
    if request.count > 1 or not cloud.policy.displaces_overrunning:
        return None, ()
    with cloud.only_on(request.nodes):
        if cloud.fitting_node(request.flavor) is not None:
            return None, ()
        node, victims = cloud.displace(request.flavor, at_us)
    return (None, ()) if node is None or has_overrun(cloud, request, at_us) else (node, victims)


def _check_spot(cloud: Cloud, request: StartRequest) -> None:
    if request.lifetime_us is None:
        raise LifetimeMissing(
            'a spot start must declare its lifetime: lifetime_s, or "lifetime": "longest" for as long as possible'
        )
    check_lifetime(cloud.policy, request.lifetime_us)
    check_probability(cloud.policy, request.eviction_probability)


def _read_basis(
    cloud: Cloud, request: StartRequest, at_us: int, quotes: Quotes | None
) -> tuple[Basis, Rejection | None]:
    """Return the figures for a request that fits, and the reason to reject it, or None.

    A quota comes before all other reasons, because it holds whatever the forecast says.
    """
    slots = slots_left(slots_now(cloud, request.flavor, at_us), request.count)
    basis, refusal = _read_quote(cloud, request, at_us, slots, quotes)
    quota = exceeded_by(cloud, request, basis, at_us)
    return (basis, refusal) if quota is None else (replace(basis, quota=quota), REFUSALS[quota.kind])


def _read_quote(
    cloud: Cloud, request: StartRequest, at_us: int, slots: int, quotes: Quotes | None
) -> tuple[Basis, Rejection | None]:
    """Return the figures from table and budget for a request, and the reason to reject it, or None.

    `per_instance` admits a start if the quoted lifetime is greater than the declared one. `pooled` admits a start that
    the class's eviction budget affords, and `stratified` one that the book of its stratum admits.
    """
    policy, declared_us = cloud.policy, request.lifetime_us or 0
    if policy.guarantee is Guarantee.NONE:
        return Basis(slots), None
    promised = policy.eviction_probability if request.eviction_probability is None else request.eviction_probability
    if at_us - cloud.created_us < policy.warm_up_us or quotes is None:
        return Basis(slots, probability=promised), Rejection.NO_HISTORY
    quotes = quotes_in_force(quotes, cloud, [request.flavor], at_us)
    quoted_us = quotes.lifetime_us(request.flavor, slots, promised)
    estimate = quotes.probability(request.flavor, slots, declared_us)
    bound = quotes.bound(request.flavor, slots, declared_us, policy.confidence)
    windows = windows_of(policy, quotes, request.flavor, slots, declared_us)
    basis = Basis(slots, quotes.epoch, promised, quoted_us, estimate, probability_bound=bound, windows=windows)
    if at_us - quotes.epoch_us > policy.table_max_age_us:
        return basis, Rejection.QUOTES_STALE
    if quoted_us is None or estimate is None:
        return basis, Rejection.NO_HISTORY
    floor = floor_above(cloud, basis, quotes)
    if floor is None:
        return _judge(cloud, request, basis, quotes, at_us)
    judge = partial(_judge, cloud, quotes=quotes, at_us=at_us)
    affordable_us = affordable_above(floor, request, basis, quotes, judge)
    return replace(basis, floor=replace(floor, affordable_us=affordable_us)), Rejection.TOO_FEW_WINDOWS


def _judge(
    cloud: Cloud, request: StartRequest, basis: Basis, quotes: Quotes, at_us: int
) -> tuple[Basis, Rejection | None]:
    """Return what the guarantee says of a start whose risk is known, and the reason to reject it, or None."""
    guarantee, promised, estimate = cloud.policy.guarantee, basis.probability or 0.0, basis.estimated_probability or 0.0
    if guarantee is Guarantee.POOLED:
        budget = read_budget(cloud, request, promised, estimate, basis.slots, quotes, at_us)
        return replace(basis, budget=budget), None if affords(budget, promised) else Rejection.BUDGET_EXHAUSTED
    if guarantee is Guarantee.STRATIFIED:
        book = read_book(cloud, request, promised, estimate, basis.slots, quotes, at_us)
        return replace(basis, book=book), None if book.admitted_by else Rejection.BUDGET_EXHAUSTED
    within = (basis.quoted_lifetime_us or 0) > (request.lifetime_us or 0)
    return basis, None if within else Rejection.SLA_UNATTAINABLE


def decide_confirmation(cloud: Cloud, instance_id: str, at_us: int) -> Sequence[Event]:
    """Return the confirmation of an eviction by a controller, or nothing if no hand-over waits for it."""
    return [EvictionConfirmed(at_us=at_us, instance_id=instance_id)] if instance_id in cloud.handovers else []


def decide_overdue(cloud: Cloud, at_us: int) -> Sequence[Event]:
    """Return the reports of evictions whose deadline has passed without a controller's confirmation.

    They are those of the earliest deadlines, MOST_NOTICES at most.
    """
    due = [one for one in cloud.known_handovers() if not one.is_overdue and one.deadline_us <= at_us][:MOST_NOTICES]
    return [EvictionOverdue(at_us=at_us, instance_id=one.instance_id, deadline_us=one.deadline_us) for one in due]


def evictions(cloud: Cloud, victims: Sequence[str], at_us: int, reason: EvictionReason, before: int = 0) -> list[Event]:
    """Return the eviction events. With a grace period, an `EvictionScheduled` with the deadline precedes each.

    `before`: the number of events that are decided before them. Their cause follows them, but a drill is its own.
    The grace period affects only the hand-over: the room is booked at once, so a replay decides like the live
    scheduler.
    """
    if not victims:  # as for nearly every start
        return []
    deadline_us = _deadline_us(cloud, at_us)
    most = MOST_REMOVED if reason in _OF_A_NODE else MOST_VICTIMS
    if len(victims) > most:
        raise TooManyEvictions(f"{len(victims)} instances would be evicted; one such request evicts {most} at most")
    if deadline_us is not None and len(cloud.handovers) + len(victims) > MOST_HANDOVERS:
        raise TooManyEvictions(f"{len(cloud.handovers)} evictions are unconfirmed, and {MOST_HANDOVERS} may be")
    count = len(victims) if deadline_us is None else 2 * len(victims)
    cause_seq = cloud.seq + before + count + (reason is not EvictionReason.DRILL)
    scheduled = (
        []
        if deadline_us is None
        else [
            EvictionScheduled(
                at_us=at_us, instance_id=victim, reason=reason, cause_seq=cause_seq, deadline_us=deadline_us
            )
            for victim in victims
        ]
    )
    return [
        *scheduled,
        *(InstanceEvicted(at_us=at_us, instance_id=victim, reason=reason, cause_seq=cause_seq) for victim in victims),
    ]


def _deadline_us(cloud: Cloud, at_us: int) -> int | None:
    return min(at_us + cloud.policy.grace_us, MAX_TIME_US) if cloud.policy.grace_us else None


def accepted(
    cloud: Cloud,
    request: StartRequest,
    at_us: int,
    places: tuple[str, ...],
    basis: Basis | None,
    victims: tuple[str, ...],
) -> InstanceStarted:
    """Return the acceptance of a start, each machine on its node, after the eviction of these victims."""
    deadline_us = _deadline_us(cloud, at_us) if victims else None
    ready_us = None
    if cloud.handovers or deadline_us is not None:
        ready_us = cloud.ready_us(places, request.flavor, victims, at_us if deadline_us is None else deadline_us, at_us)
    return InstanceStarted(
        at_us=at_us,
        instance_id=request.instance_id,
        market=request.market,
        flavor=request.flavor,
        node=places[0],
        lifetime_us=request.lifetime_us,
        probability=request.eviction_probability,
        basis=basis,
        victims=victims,
        deadline_us=deadline_us,
        ready_us=ready_us,
        nodes=places if len(places) > 1 else (),
        owner=request.account,
        allowed=_allowed(cloud, request),
        project=request.project,
        user=request.user,
        observed=request.observed,
    )


def _allowed(cloud: Cloud, request: StartRequest) -> tuple[str, ...]:
    """Return the nodes that a start is restricted to; none if it may take all that are open.

    Names of no node decide nothing and are left out, but for one that stands for all where no name is known.
    """
    if not request.nodes:
        return ()
    others = cloud.nodes.keys() - request.nodes
    left_out = any(cloud.nodes[name].status is NodeStatus.OPEN for name in others)
    known = tuple(name for name in dict.fromkeys(request.nodes) if name in cloud.nodes)
    return (known or request.nodes[:1]) if left_out else ()


def _rejected(
    cloud: Cloud, request: StartRequest, at_us: int, reason: Rejection, basis: Basis | None
) -> InstanceRejected:
    return InstanceRejected(
        at_us=at_us,
        instance_id=request.instance_id,
        market=request.market,
        flavor=request.flavor,
        reason=reason,
        lifetime_us=request.lifetime_us,
        probability=request.eviction_probability,
        basis=basis,
        count=request.count,
        owner=request.account,
        allowed=_allowed(cloud, request),
        project=request.project,
        user=request.user,
    )
