"""The events of a log that was written as CSV: what `logcsv` wrote, read back as far as the columns tell.

Of policies the columns hold the eviction policy, the guarantee and the probability; the rest comes from `base`. A log
that an evaluation wrote has instances only: its cloud begins at second 0 without nodes, and with the SLA that most of
its spot starts were promised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from app.domain.events import (
    CloudCreated,
    Event,
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    InstanceStopped,
    NodeAdded,
    NodeDrained,
    NodeOpened,
    NodeRemoved,
    PolicyChanged,
    Recorded,
)
from app.domain.inputs import InputError
from app.domain.names import flavor_name
from app.domain.values import Basis, EvictionPolicy, EvictionReason, Guarantee, Market, Policy, Rejection, RiskLevel
from app.services.logcsv import LogRow


def events_of(rows: Sequence[LogRow], base: Policy) -> list[Recorded]:
    """The events, numbered anew; a start's victims are left to the evictions. InputError where a row is no event."""
    events: list[Event] = [] if any(row.kind == "cloud_created" for row in rows) else _opening(rows, base)
    opened = len(events)
    policy = events[0].policy if events and isinstance(events[0], CloudCreated) else base
    for row in rows:
        try:
            event = _READ[row.kind](row, policy)
        except (ValueError, KeyError) as error:
            raise InputError(f"event {row.seq} of the log cannot be read back: {error}") from error
        if isinstance(event, CloudCreated | PolicyChanged):
            policy = event.policy
        if isinstance(event, InstanceEvicted | EvictionScheduled):
            event = replace(event, cause_seq=event.cause_seq + opened)
        events.append(event)
    return [Recorded(seq, event) for seq, event in enumerate(events, 1)]


def _opening(rows: Sequence[LogRow], base: Policy) -> list[Event]:
    """What an evaluation's log leaves out."""
    promised = Counter(row.probability for row in rows if row.probability is not None)
    policy = replace(base, guarantee=Guarantee.NONE)
    if promised:
        ((probability, _),) = promised.most_common(1)
        policy = replace(base, eviction_probability=probability)
    flavors = {_flavor(row): row.demand for row in rows if row.instance_id is not None}
    return [
        CloudCreated(at_us=0, policy=policy),
        *(FlavorAdded(at_us=0, flavor=name, demand=demand) for name, demand in flavors.items()),
    ]


def _flavor(row: LogRow) -> str:
    return row.flavor or flavor_name(row.demand.cores)


def _policy(row: LogRow, base: Policy) -> Policy:
    return replace(
        base,
        eviction_policy=EvictionPolicy(row.eviction_policy or base.eviction_policy),
        guarantee=Guarantee(row.guarantee or base.guarantee),
        eviction_probability=base.eviction_probability if row.probability is None else row.probability,
        grace_us=base.grace_us if row.grace_us is None else row.grace_us,
        risk_threshold=base.risk_threshold if row.threshold is None else row.threshold,
    )


def _started(row: LogRow, policy: Policy) -> InstanceStarted:
    own, basis = _own_probability(row, policy), _basis(row)
    node = row.node or ""
    return InstanceStarted(
        at_us=row.at_us,
        instance_id=_name(row),
        market=_market(row),
        flavor=_flavor(row),
        node=node,
        lifetime_us=row.lifetime_us,
        probability=own,
        basis=basis,
        deadline_us=row.deadline_us,
        ready_us=row.ready_us,
    )


def _rejected(row: LogRow, policy: Policy) -> InstanceRejected:
    own, basis, reason = _own_probability(row, policy), _basis(row), Rejection(row.reason or "")
    return InstanceRejected(
        at_us=row.at_us,
        instance_id=_name(row),
        market=_market(row),
        flavor=_flavor(row),
        reason=reason,
        lifetime_us=row.lifetime_us,
        probability=own,
        basis=basis,
    )


def _own_probability(row: LogRow, policy: Policy) -> float | None:
    """The column holds what was promised; it is the start's own where it is not the cloud's."""
    return None if row.probability == policy.eviction_probability else row.probability


def _basis(row: LogRow) -> Basis | None:
    if row.slots is None:
        return None
    return Basis(
        row.slots,
        row.epoch,
        row.probability,
        row.quoted_lifetime_us,
        row.estimated_probability,
        row.budget,
        row.probability_bound,
    )


def _name(row: LogRow) -> str:
    if row.instance_id is None:
        raise ValueError("it names no instance")
    return row.instance_id


def _market(row: LogRow) -> Market:
    return Market(row.market or "")


def _evicted(row: LogRow, _: Policy) -> InstanceEvicted:
    return InstanceEvicted(
        at_us=row.at_us, instance_id=_name(row), reason=EvictionReason(row.reason or ""), cause_seq=row.cause_seq or 0
    )


_READ: dict[str, Callable[[LogRow, Policy], Event]] = {
    "cloud_created": lambda row, policy: CloudCreated(at_us=row.at_us, policy=_policy(row, policy)),
    "policy_changed": lambda row, policy: PolicyChanged(at_us=row.at_us, policy=_policy(row, policy)),
    "node_added": lambda row, _: NodeAdded(at_us=row.at_us, node=row.node or "", capacity=row.demand),
    "node_drained": lambda row, _: NodeDrained(at_us=row.at_us, node=row.node or ""),
    "node_opened": lambda row, _: NodeOpened(at_us=row.at_us, node=row.node or ""),
    "node_removed": lambda row, _: NodeRemoved(at_us=row.at_us, node=row.node or ""),
    "flavor_added": lambda row, _: FlavorAdded(at_us=row.at_us, flavor=row.flavor or "", demand=row.demand),
    "instance_started": _started,
    "instance_rejected": _rejected,
    "instance_stopped": lambda row, _: InstanceStopped(at_us=row.at_us, instance_id=_name(row)),
    "instance_evicted": _evicted,
    "eviction_scheduled": lambda row, _: EvictionScheduled(
        at_us=row.at_us,
        instance_id=_name(row),
        reason=EvictionReason(row.reason or ""),
        cause_seq=row.cause_seq or 0,
        deadline_us=row.deadline_us or 0,
    ),
    "eviction_confirmed": lambda row, _: EvictionConfirmed(at_us=row.at_us, instance_id=_name(row)),
    "eviction_overdue": lambda row, _: EvictionOverdue(
        at_us=row.at_us, instance_id=_name(row), deadline_us=row.deadline_us or 0
    ),
    "eviction_risk": lambda row, _: EvictionRisk(
        at_us=row.at_us,
        instance_id=_name(row),
        level=RiskLevel(row.reason or ""),
        probability=row.risk or 0.0,
        threshold=row.threshold or 0.0,
        epoch=row.epoch or 0,
        slots=row.slots or 0,
    ),
}
