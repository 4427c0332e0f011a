"""The event log as CSV, one line an event: what `evaluate --log` and `log export` write and `audit` reads.

Times are seconds, written as the shortest exact decimals; a cell is empty where it does not apply. The first columns
and the four instance kinds are a promise to whoever reads such files; columns may be added at the end. Lines of a stop
and of an eviction repeat what their start said.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import singledispatchmethod
from pathlib import Path
from typing import Any, NamedTuple, TextIO, TypeVar

from app.domain.events import (
    CloudCreated,
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
from app.domain.times import parse_seconds, seconds_text
from app.domain.values import Basis, Budget, Market, Policy, Resources

PROMISED_COLUMNS = (
    "seq",
    "at_s",
    "kind",
    "instance_id",
    "market",
    "cores",
    "lifetime_s",
    "node",
    "reason",
    "cause_seq",
    "epoch",
    "slots",
    "probability",
    "quoted_lifetime_s",
)
COLUMNS = (
    *PROMISED_COLUMNS,
    "flavor",
    "memory_mib",
    "disk_gib",
    "estimated_probability",
    "eviction_policy",
    "guarantee",
    "risk",
    "charge",
    "committed",
    "class_evicted",
    "earned",
    "affordable_lifetime_s",
    "probability_bound",
    "deadline_s",
    "ready_s",
    "grace_s",
    "threshold",
)

Cells = dict[str, Any]
T = TypeVar("T")


class LogRow(NamedTuple):
    """One line of the file, times in microseconds; None where a cell is empty."""

    seq: int
    at_us: int
    kind: str
    instance_id: str | None
    market: str | None
    demand: Resources
    lifetime_us: int | None
    node: str | None
    reason: str | None
    cause_seq: int | None
    epoch: int | None
    slots: int | None
    probability: float | None
    quoted_lifetime_us: int | None
    eviction_policy: str | None
    guarantee: str | None
    flavor: str | None = None
    estimated_probability: float | None = None
    budget: Budget | None = None
    probability_bound: float | None = None
    deadline_us: int | None = None
    ready_us: int | None = None
    grace_us: int | None = None
    threshold: float | None = None
    risk: float | None = None


# --- writing ---------------------------------------------------------------------------------------------------------


class LogWriter:
    """Writes events as they come; every event of the log must be given to `write`, in order.

    `instances_only` leaves out all other kinds, and numbers what is written 1, 2, 3, ... The others must then stand
    before the first instance event, as in an evaluation.
    """

    def __init__(self, file: TextIO, *, instances_only: bool = False) -> None:
        self._writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        self._writer.writeheader()
        self._instances_only = instances_only
        self._left_out = 0
        self._flavors: dict[str, Resources] = {}
        self._started: dict[str, Cells] = {}
        self._policy = Policy()

    def write(self, recorded: Recorded) -> None:
        """Write one event."""
        kind, cells = self._cells(recorded.event)
        if self._instances_only and not kind.startswith("instance_"):
            self._left_out += 1
            return
        if "cause_seq" in cells:
            cells["cause_seq"] -= self._left_out
        head = {"seq": recorded.seq - self._left_out, "at_s": seconds_text(recorded.event.at_us), "kind": kind}
        self._writer.writerow(head | {name: value for name, value in cells.items() if value is not None})

    @singledispatchmethod
    def _cells(self, event: object) -> tuple[str, Cells]:
        raise TypeError(f"no line for {type(event).__name__}")

    @_cells.register
    def _(self, event: CloudCreated) -> tuple[str, Cells]:
        return "cloud_created", self._follow(event.policy)

    @_cells.register
    def _(self, event: PolicyChanged) -> tuple[str, Cells]:
        return "policy_changed", self._follow(event.policy)

    @_cells.register
    def _(self, event: NodeAdded) -> tuple[str, Cells]:
        return "node_added", {"node": event.node, **_demand(event.capacity)}

    @_cells.register
    def _(self, event: NodeDrained) -> tuple[str, Cells]:
        return "node_drained", {"node": event.node}

    @_cells.register
    def _(self, event: NodeOpened) -> tuple[str, Cells]:
        return "node_opened", {"node": event.node}

    @_cells.register
    def _(self, event: NodeRemoved) -> tuple[str, Cells]:
        return "node_removed", {"node": event.node}

    @_cells.register
    def _(self, event: FlavorAdded) -> tuple[str, Cells]:
        self._flavors[event.flavor] = event.demand
        return "flavor_added", {"flavor": event.flavor, **_demand(event.demand)}

    @_cells.register
    def _(self, event: InstanceStarted) -> tuple[str, Cells]:
        cells = {**self._request(event), "node": event.node}
        self._started[event.instance_id] = cells
        when = {"deadline_s": _seconds(event.deadline_us), "ready_s": _seconds(event.ready_us)}
        return "instance_started", {**cells, **self._basis(event.basis), **when}

    @_cells.register
    def _(self, event: InstanceRejected) -> tuple[str, Cells]:
        return "instance_rejected", {**self._request(event), "reason": event.reason, **self._basis(event.basis)}

    @_cells.register
    def _(self, event: InstanceStopped) -> tuple[str, Cells]:
        return "instance_stopped", self._started.pop(event.instance_id)

    @_cells.register
    def _(self, event: InstanceEvicted) -> tuple[str, Cells]:
        cells = self._started.pop(event.instance_id)
        why = {"reason": event.reason, "cause_seq": event.cause_seq}
        return "instance_evicted", {**cells, **why, "eviction_policy": self._policy.eviction_policy}

    @_cells.register
    def _(self, event: EvictionScheduled) -> tuple[str, Cells]:
        why = {"reason": event.reason, "cause_seq": event.cause_seq, "deadline_s": seconds_text(event.deadline_us)}
        return "eviction_scheduled", {**self._started[event.instance_id], **why}

    @_cells.register
    def _(self, event: EvictionConfirmed) -> tuple[str, Cells]:
        return "eviction_confirmed", {"instance_id": event.instance_id}

    @_cells.register
    def _(self, event: EvictionOverdue) -> tuple[str, Cells]:
        return "eviction_overdue", {
            "instance_id": event.instance_id,
            "deadline_s": seconds_text(event.deadline_us),
        }

    @_cells.register
    def _(self, event: EvictionRisk) -> tuple[str, Cells]:
        why = {"reason": event.level, "risk": event.probability, "threshold": event.threshold}
        return "eviction_risk", {
            **self._started[event.instance_id],
            **why,
            "epoch": event.epoch,
            "slots": event.slots,
        }

    def _follow(self, policy: Policy) -> Cells:
        self._policy = policy
        return {
            "eviction_policy": policy.eviction_policy,
            "guarantee": policy.guarantee,
            "probability": policy.eviction_probability,
            "grace_s": seconds_text(policy.grace_us) if policy.grace_us else None,
            "threshold": policy.risk_threshold,
        }

    def _request(self, event: InstanceStarted | InstanceRejected) -> Cells:
        return {
            "instance_id": event.instance_id,
            "market": event.market,
            "flavor": event.flavor,
            "lifetime_s": _seconds(event.lifetime_us),
            **_demand(self._flavors[event.flavor]),
            "eviction_policy": self._policy.eviction_policy if event.market is Market.ON_DEMAND else None,
        }

    def _basis(self, basis: Basis | None) -> Cells:
        if basis is None:
            return {}
        return {
            "epoch": basis.epoch,
            "slots": basis.slots,
            "probability": basis.probability,
            "quoted_lifetime_s": _seconds(basis.quoted_lifetime_us),
            "estimated_probability": basis.estimated_probability,
            **_budget(basis.budget),
            "probability_bound": basis.probability_bound,
        }


def _budget(budget: Budget | None) -> Cells:
    if budget is None:
        return {}
    cells: Cells = asdict(budget)
    affordable_s = _seconds(cells.pop("affordable_us"))
    return {"class_evicted": cells.pop("evicted"), "affordable_lifetime_s": affordable_s, **cells}


def _demand(resources: Resources) -> Cells:
    return resources._asdict()


def _seconds(us: int | None) -> str | None:
    return None if us is None else seconds_text(us)


# --- reading ---------------------------------------------------------------------------------------------------------


def read_log(path: Path) -> Iterator[LogRow]:
    """The lines of a log file. InputError, with the line's number, where one cannot be read."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from (row for _, row in read_rows(file, str(path)))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a CSV file: {error}") from error


def read_rows(lines: Iterable[str], name: str) -> Iterator[tuple[int, LogRow]]:
    """The rows of a log's lines, the header first, each with its line's number; `name` is the file's, for errors."""
    reader = csv.DictReader(lines, strict=True)
    try:
        missing = [column for column in PROMISED_COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise InputError(f"{name}, line 1: the columns {', '.join(missing)} are missing")
        for cells in reader:
            yield reader.line_num, _row(cells, f"{name}, line {reader.line_num}")
    except csv.Error as error:
        raise InputError(f"{name}, line {reader.line_num + 1}: is not a CSV file: {error}") from error


def _row(cells: Cells, place: str) -> LogRow:
    if None in cells or None in cells.values():
        raise InputError(f"{place}: the line has not as many cells as there are columns")
    try:
        return LogRow(
            seq=int(cells["seq"]),
            at_us=parse_seconds(cells["at_s"]),
            kind=cells["kind"],
            instance_id=cells["instance_id"] or None,
            market=cells["market"] or None,
            demand=Resources(*(int(cells.get(name) or 0) for name in Resources._fields)),
            lifetime_us=_parse(parse_seconds, cells["lifetime_s"]),
            node=cells["node"] or None,
            reason=cells["reason"] or None,
            cause_seq=_parse(int, cells["cause_seq"]),
            epoch=_parse(int, cells["epoch"]),
            slots=_parse(int, cells["slots"]),
            probability=_parse(float, cells["probability"]),
            quoted_lifetime_us=_parse(parse_seconds, cells["quoted_lifetime_s"]),
            eviction_policy=cells.get("eviction_policy") or None,
            guarantee=cells.get("guarantee") or None,
            flavor=cells.get("flavor") or None,
            estimated_probability=_parse(float, cells.get("estimated_probability") or ""),
            budget=_read_budget(cells) if cells.get("earned") else None,
            probability_bound=_parse(float, cells.get("probability_bound") or ""),
            deadline_us=_parse(parse_seconds, cells.get("deadline_s") or ""),
            ready_us=_parse(parse_seconds, cells.get("ready_s") or ""),
            grace_us=_parse(parse_seconds, cells.get("grace_s") or ""),
            threshold=_parse(float, cells.get("threshold") or ""),
            risk=_parse(float, cells.get("risk") or ""),
        )
    except ValueError as error:
        raise InputError(f"{place}: {error}") from error


def _read_budget(cells: Cells) -> Budget:
    numbers = {name: float(cells[name]) for name in ("earned", "committed", "charge", "risk")}
    affordable_us = _parse(parse_seconds, cells["affordable_lifetime_s"])
    return Budget(evicted=int(cells["class_evicted"]), affordable_us=affordable_us, **numbers)


def _parse(parse: Callable[[str], T], text: str) -> T | None:
    return parse(text) if text else None
