"""The service's JSON as values, and back. Seconds on the wire are whole microseconds inside, and exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

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
from app.domain.requests import Operation, StartRequest
from app.domain.times import SECOND_US, from_datetime, to_datetime
from app.domain.values import (
    Basis,
    Budget,
    Clock,
    EvictionPolicy,
    EvictionReason,
    Guarantee,
    Market,
    Policy,
    Rejection,
    Resources,
    RiskLevel,
)

Json = dict[str, Any]


def operation_body(operation: Operation) -> Json:
    """The body of a start, or of a stop in a batch; what is absent is left out."""
    body: Json = {"id": operation.instance_id}
    if isinstance(operation, StartRequest):
        body |= {"market": operation.market, "flavor": operation.flavor}
        if operation.lifetime_us is not None:
            body["lifetime_s"] = _seconds(operation.lifetime_us)
        if operation.eviction_probability is not None:
            body["eviction_probability"] = operation.eviction_probability
    if operation.at_us is not None:
        body["at"] = time_text(operation.at_us)
    return body


def time_text(at_us: int) -> str:
    """A time as RFC 3339."""
    return to_datetime(at_us).isoformat().replace("+00:00", "Z")


def resources_body(name: str, resources: Resources) -> Json:
    """The body of a node or of a flavor."""
    return {"name": name, **resources._asdict()}


def policy_body(policy: Policy) -> Json:
    """All of a policy."""
    history_us, step_us = policy.history_window_us, policy.clock_step_us
    return {
        "guarantee": policy.guarantee,
        "eviction_probability": policy.eviction_probability,
        "eviction_policy": policy.eviction_policy,
        "clock": policy.clock,
        "warm_up_s": _seconds(policy.warm_up_us),
        "recompute_every_s": _seconds(policy.recompute_every_us),
        "table_max_age_s": _seconds(policy.table_max_age_us),
        "history_window_s": None if history_us is None else _seconds(history_us),
        "horizon_s": _seconds(policy.horizon_us),
        "sample_count": policy.sample_count,
        "seed": policy.seed,
        "confidence": policy.confidence,
        "grace_s": _seconds(policy.grace_us),
        "risk_threshold": policy.risk_threshold,
        "clock_step_s": None if step_us is None else _seconds(step_us),
    }


def policy_of(answer: Json) -> Policy:
    """The policy that `policy_body` gives."""
    return Policy(
        guarantee=Guarantee(answer["guarantee"]),
        eviction_probability=answer["eviction_probability"],
        eviction_policy=EvictionPolicy(answer["eviction_policy"]),
        clock=Clock(answer["clock"]),
        warm_up_us=_us(answer["warm_up_s"]),
        recompute_every_us=_us(answer["recompute_every_s"]),
        table_max_age_us=_us(answer["table_max_age_s"]),
        history_window_us=_optional_us(answer["history_window_s"]),
        horizon_us=_us(answer["horizon_s"]),
        sample_count=answer["sample_count"],
        seed=answer["seed"],
        confidence=answer["confidence"],
        grace_us=_us(answer["grace_s"]),
        risk_threshold=answer["risk_threshold"],
        clock_step_us=_optional_us(answer["clock_step_s"]),
    )


def resources_of(answer: Json) -> Resources:
    """A resource vector."""
    return Resources(answer["cores"], answer["memory_mib"], answer["disk_gib"])


def recorded_of(answer: Json) -> Recorded:
    """An event of the log at its place. ValueError where its kind is unknown."""
    read = _EVENTS.get(answer["kind"])
    if read is None:
        raise ValueError(f"event {answer['seq']} is of the unknown kind {answer['kind']!r}")
    return Recorded(answer["seq"], read(from_datetime(datetime.fromisoformat(answer["at"])), answer))


def _started(at_us: int, answer: Json) -> InstanceStarted:
    deadlines = [victim["deadline"] for victim in answer["victims"] if victim["deadline"] is not None]
    ready_us = _time_us(answer["ready_at"])
    return InstanceStarted(
        at_us,
        answer["id"],
        Market(answer["market"]),
        answer["flavor"],
        answer["node"],
        _optional_us(answer["lifetime_s"]),
        answer["eviction_probability"],
        _basis(answer["quote"]),
        _ids(answer["victims"]),
        _time_us(deadlines[0]) if deadlines else None,
        None if ready_us == at_us else ready_us,
    )


def _rejected(at_us: int, answer: Json) -> InstanceRejected:
    return InstanceRejected(
        at_us,
        answer["id"],
        Market(answer["market"]),
        answer["flavor"],
        Rejection(answer["reason"]),
        _optional_us(answer["lifetime_s"]),
        answer["eviction_probability"],
        _basis(answer["quote"]),
    )


def _evicted(at_us: int, answer: Json) -> InstanceEvicted:
    return InstanceEvicted(at_us, answer["id"], EvictionReason(answer["reason"]), answer["cause_seq"])


_EVENTS: Mapping[str, Callable[[int, Json], Event]] = {
    "cloud_created": lambda at_us, answer: CloudCreated(at_us, policy_of(answer["policy"])),
    "policy_changed": lambda at_us, answer: PolicyChanged(at_us, policy_of(answer["policy"])),
    "node_added": lambda at_us, answer: NodeAdded(at_us, answer["node"], resources_of(answer["capacity"])),
    "node_drained": lambda at_us, answer: NodeDrained(at_us, answer["node"]),
    "node_opened": lambda at_us, answer: NodeOpened(at_us, answer["node"]),
    "node_removed": lambda at_us, answer: NodeRemoved(at_us, answer["node"]),
    "flavor_added": lambda at_us, answer: FlavorAdded(at_us, answer["flavor"], resources_of(answer["demand"])),
    "instance_started": _started,
    "instance_rejected": _rejected,
    "instance_stopped": lambda at_us, answer: InstanceStopped(at_us, answer["id"]),
    "instance_evicted": _evicted,
    "eviction_scheduled": lambda at_us, answer: EvictionScheduled(
        at_us, answer["id"], EvictionReason(answer["reason"]), answer["cause_seq"], _time_us(answer["deadline"])
    ),
    "eviction_confirmed": lambda at_us, answer: EvictionConfirmed(at_us, answer["id"]),
    "eviction_overdue": lambda at_us, answer: EvictionOverdue(at_us, answer["id"], _time_us(answer["deadline"])),
    "eviction_risk": lambda at_us, answer: EvictionRisk(
        at_us,
        answer["id"],
        RiskLevel(answer["level"]),
        answer["eviction_probability"],
        answer["threshold"],
        answer["epoch"],
        answer["slots"],
    ),
}


def _budget(budget: Json | None) -> Budget | None:
    if budget is None:
        return None
    numbers = {name: budget[name] for name in ("earned", "evicted", "committed", "charge", "risk")}
    return Budget(**numbers, affordable_us=_optional_us(budget["affordable_lifetime_s"]))


def _basis(quote: Json | None) -> Basis | None:
    if quote is None:
        return None
    return Basis(
        quote["slots"],
        quote["epoch"],
        quote["eviction_probability"],
        _optional_us(quote["lifetime_s"]),
        quote["estimated_eviction_probability"],
        _budget(quote["budget"]),
        quote["eviction_probability_bound"],
    )


def _time_us(text: str) -> int:
    return from_datetime(datetime.fromisoformat(text))


def _ids(answers: list[Json]) -> tuple[str, ...]:
    return tuple(answer["id"] for answer in answers)


def _seconds(us: int) -> int | float:
    whole, rest = divmod(us, SECOND_US)
    return us / SECOND_US if rest else whole


def _us(seconds: float) -> int:
    return round(seconds * SECOND_US)


def _optional_us(seconds: float | None) -> int | None:
    return None if seconds is None else _us(seconds)
