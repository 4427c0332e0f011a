"""The events of a log that was written as CSV, read back as far as the columns tell.

The columns hold a policy's rules and its promise; the rest comes from `base`. A log that an evaluation wrote has
instances only: its cloud begins at second 0 without nodes, with the SLA that most of its spot starts were promised, and
the guarantee that they were decided by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeAlias

from app.domain.budgets import BudgetUnit
from app.domain.events import (
    CloudCreated,
    Event,
    EvictionScheduled,
    FlavorAdded,
    InstanceEvicted,
    InstanceRejected,
    InstanceStarted,
    PolicyChanged,
    Recorded,
)
from app.domain.events.registry import KINDS
from app.domain.events.wire import fields_on_wire
from app.domain.inputs import InputError
from app.domain.names import flavor_name
from app.domain.values import AfterPromise, Basis, EvictionPolicy, Forecast, Guarantee, Placement, Policy
from app.workbench.logcsv import LogRow

Reader: TypeAlias = Callable[[LogRow, Policy], Any]


def _place_of(index: int) -> str:
    return f"event {index + 1} of the log"


def events_of(rows: Sequence[LogRow], base: Policy, place_of: Callable[[int], str] = _place_of) -> list[Recorded]:
    """Return the events with new numbers; victims are told by their evictions.

    Raises InputError for a bad row; `place_of` says where it is, by its index.
    """
    events: list[Event] = [] if any(row.kind == "cloud_created" for row in rows) else _opening(rows, base)
    opened = len(events)
    policy = events[0].policy if events and isinstance(events[0], CloudCreated) else base
    for index, row in enumerate(rows):
        try:
            event = _event(row, policy)
        except (ValueError, KeyError) as error:
            raise InputError(f"{place_of(index)}: it cannot be read back: {error}") from error
        if isinstance(event, CloudCreated | PolicyChanged):
            policy = event.policy
        if isinstance(event, InstanceEvicted | EvictionScheduled):
            event = replace(event, cause_seq=event.cause_seq + opened)
        events.append(event)
    return [Recorded(seq, event) for seq, event in enumerate(events, 1)]


def _opening(rows: Sequence[LogRow], base: Policy) -> list[Event]:
    """Return the events that an evaluation's log leaves out."""
    promised = Counter(row.probability for row in rows if row.probability is not None)
    placed = (Placement(row.placement) for row in rows if row.placement is not None)
    foreseen = (Forecast(row.forecast) for row in rows if row.forecast is not None)
    base = replace(base, placement=next(placed, base.placement), forecast=next(foreseen, base.forecast))
    policy = replace(base, guarantee=Guarantee.NONE)
    if promised:
        ((probability, _),) = promised.most_common(1)
        policy = replace(
            base, eviction_probability=probability, guarantee=_guarantee(rows, base), budget=_budget(rows, base)
        )
    flavors = {flavor_told(row): row.demand for row in rows if row.instance_id is not None}
    return [
        CloudCreated(at_us=0, policy=policy),
        *(FlavorAdded(at_us=0, flavor=name, demand=demand) for name, demand in flavors.items()),
    ]


def _guarantee(rows: Sequence[LogRow], base: Policy) -> Guarantee:
    """Return the guarantee that the decisions show: only two of them have figures of their own."""
    if any(row.book is not None for row in rows):
        return Guarantee.STRATIFIED
    return Guarantee.POOLED if any(row.budget is not None for row in rows) else base.guarantee


def _budget(rows: Sequence[LogRow], base: Policy) -> BudgetUnit:
    """Return what the budgets of the decisions count; without any, what `base` says."""
    accounts = [account for row in rows if (account := row.book or row.budget) is not None]
    if not accounts:
        return base.budget
    by_core_hours = any(account.core_hours is not None for account in accounts)
    return BudgetUnit.CORE_HOURS if by_core_hours else BudgetUnit.INSTANCES


def flavor_told(row: LogRow) -> str:
    """Return the flavor of a line; older lines tell its cores only."""
    return row.flavor or flavor_name(row.demand.cores)


def _policy(row: LogRow, base: Policy) -> Policy:
    return replace(
        base,
        eviction_policy=EvictionPolicy(row.eviction_policy or base.eviction_policy),
        placement=Placement(row.placement or base.placement),
        forecast=Forecast(row.forecast or base.forecast),
        guarantee=Guarantee(row.guarantee or base.guarantee),
        eviction_probability=base.eviction_probability if row.probability is None else row.probability,
        grace_us=base.grace_us if row.grace_us is None else row.grace_us,
        risk_threshold=base.risk_threshold if row.threshold is None else row.threshold,
        strata_us=base.strata_us if row.strata_us is None else row.strata_us,
        min_windows=base.min_windows if row.min_windows is None else row.min_windows,
        owner_cores=row.owner_cores,
        owner_share=row.owner_share,
        overrunning_cores=row.overrunning_cores,
        displaces_overrunning=bool(row.displaces_overrunning),
        budget=BudgetUnit(row.unit or BudgetUnit.INSTANCES),
        overrun_share=row.overrun_share,
        gives_back=bool(row.gives_back),
    )


def _event(row: LogRow, policy: Policy) -> Event:
    """Return the event of a line, field by field from the columns. Raises ValueError for an impossible value."""
    form = KINDS[row.kind].form
    event: Event = form(**{name: read(row, policy) for name, read in _FIELDS_OF[form]})
    return event


def _own_probability(row: LogRow, policy: Policy) -> float | None:
    """The CSV stores the promised probability. It came from the request exactly if it differs from the policy's."""
    return None if row.probability == policy.eviction_probability else row.probability


def _basis(row: LogRow, _: Policy) -> Basis | None:
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
        row.book,
        row.windows,
        row.floor,
        row.quota,
    )


def _name(row: LogRow, _: Policy) -> str:
    if row.instance_id is None:
        raise ValueError("it names no instance")
    return row.instance_id


def _reader(name: str, kind: type, *, optional: bool) -> Reader:
    """Return a function that reads a field of an event. A missing value is "" or 0, as columns cannot tell."""
    if name in _READ:
        return _READ[name]
    column = _COLUMN_OF.get(name, name)
    if issubclass(kind, Enum) and not optional:
        return lambda row, _: kind(getattr(row, column) or "")
    if issubclass(kind, Enum):
        return lambda row, _: kind(getattr(row, column)) if getattr(row, column) else None
    if optional:
        return lambda row, _: getattr(row, column)
    return lambda row, _: getattr(row, column) or kind()


def _readers(form: type) -> tuple[tuple[str, Reader], ...]:
    is_start = form in {InstanceStarted, InstanceRejected}
    return tuple(
        (field.name, _own_probability)
        if is_start and field.name == "probability"
        else (field.name, _reader(field.name, field.kind, optional=field.optional))
        for field in fields_on_wire(form)
        if field.name not in _UNTOLD
    )


_UNTOLD = {"on_preempted", "attempts", "answer_us", "hold_us", "margin_us"}
_UNTOLD |= {"inputs", "outputs", "stage_us", "data_bytes"}
"""Fields of a job that no column holds: what they set is in the events that follow, and its data decides nothing."""
_COLUMN_OF = {
    "level": "reason",
    "probability": "risk",
    "capacity": "demand",
    "cores": "owner_cores",
    "share": "owner_share",
    "word": "end",
    "why": "end",
    "eviction_probability": "probability",
}
_READ: dict[str, Reader] = {
    "instance_id": _name,
    "policy": _policy,
    "flavor": lambda row, _: flavor_told(row),
    "basis": _basis,
    "victims": lambda *_: (),
    "is_automatic": lambda row, _: row.automatic is not None,
    "afterwards": lambda *_: AfterPromise.DISPLACED_FIRST,
    "nodes": lambda row, _: row.nodes or (),
    "allowed": lambda row, _: row.allowed or (),
    "count": lambda row, _: row.machine_count,
    "moves": lambda row, _: row.moves or (),
    "is_last": lambda row, _: row.last is not None,
    "observed": lambda row, _: row.observed is not None,
    "aborted": lambda row, _: row.aborted is not None,
    "goes_first": lambda row, _: row.goes_first is not None,
    "peers": lambda row, _: tuple((row.peers or "").split()),
}
_FIELDS_OF = {kind.form: _readers(kind.form) for kind in KINDS.values()}
