"""Imports an exported CSV log. Only the requests are taken; the engine decides them again.

The promises in the log rest on tables that are not here. So promises are dropped, and so are spot starts that were
rejected. An evicted instance ends at its declared lifetime, unless the engine evicts it again, as it will on the same
platform. A log that breaks its own rules (docs/log.md) is a broken file, also where it is decided again as it stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from app.domain.events.registry import ENDS, INDECISIVE, STARTS
from app.domain.inputs import InputError
from app.domain.names import flavor_name
from app.domain.requests import MOST_MEMBERS
from app.domain.times import MAX_TIME_US
from app.domain.values import EvictionPolicy, Forecast, Guarantee, Market, Placement, Resources
from app.engine.cluster import UNCOUNTED
from app.importing.past import Past, is_name
from app.importing.rules.pastrules import PastRule
from app.importing.rules.records import FileLine, PastChange, PastInstance
from app.workbench.logcolumns import PROMISED_COLUMNS
from app.workbench.logcsv import LogRow, read_rows
from app.workbench.policylines import policy_fault

LOG_COLUMNS = PROMISED_COLUMNS
_WORDS = {
    name: frozenset(map(str, words))
    for name, words in (
        ("eviction_policy", EvictionPolicy),
        ("guarantee", Guarantee),
        ("forecast", Forecast),
        ("placement", Placement),
    )
}


class _OpenStart(NamedTuple):
    """A start whose end has not come."""

    line: int
    row: LogRow
    flavor: str


def read_past_log(past: Past, lines: Iterable[str]) -> None:
    """Read the one file of the past. Raises InputError with the line that breaks a rule."""
    reader = LogReader(past)
    for line, row in read_rows(lines, past.files[0]):
        past.line_count += 1
        reader.take(line, row)
    reader.end()


def _is_size(resources: Resources) -> bool:
    """Return True if the resources are not all zero and no larger than a node can count."""
    return 0 <= min(resources) <= max(resources) < UNCOUNTED and max(resources) > 0


class LogReader:
    """Takes a log event by event into a past, and refuses the line that breaks a rule."""

    def __init__(self, past: Past) -> None:
        self._past = past
        self._running: dict[str, _OpenStart] = {}
        self._rooms = set[str | None]()
        self._taken_rooms = set[str | None]()
        self._nodes: set[str] = set()
        self._seq = 0
        self._at_us = 0
        self._takes: dict[str, Callable[[int, LogRow], None]] = {
            "cloud_created": self._policy,
            "policy_changed": self._policy,
            "node_added": self._node_added,
            "node_drained": self._node,
            "node_opened": self._node,
            "node_removed": self._node,
            "node_resized": self._node_resized,
            "flavor_added": self._flavor_added,
            "instance_started": self._started,
            "instance_rejected": self._rejected,
            "instance_stopped": self._ended,
            "instance_evicted": self._ended,
            "instance_extended": self._extended,
            **dict.fromkeys(INDECISIVE, partial(self._left_out, PastRule.NOTICE)),
            **dict.fromkeys(("quota_set", "quota_removed"), partial(self._left_out, PastRule.QUOTA)),
            "instance_moved": self._moved,
        }

    def take(self, line: int, row: LogRow) -> None:
        """Take the next event."""
        if row.seq != self._seq + 1:
            raise self._broken(line, f"seq {row.seq} follows {self._seq}")
        if not self._at_us <= row.at_us <= MAX_TIME_US:
            raise self._broken(line, "time runs backwards" if row.at_us < self._at_us else "time is beyond 9999")
        if row.kind not in self._takes:
            raise self._broken(line, f"the kind {row.kind!r} is unknown")
        self._check_cells(line, row)
        self._seq, self._at_us = row.seq, row.at_us
        if row.kind == "room_held":
            self._rooms.add(row.instance_id)
        if row.instance_id in self._rooms:
            self._room(line, row)
        else:
            self._takes[row.kind](line, row)

    def end(self) -> None:
        """Keep the instances that still run, without an end."""
        for started in self._running.values():
            self._keep(started, None, started.line)
        self._past.scratch.cut_after(self._at_us)

    def _check_cells(self, line: int, row: LogRow) -> None:
        """Raise InputError for a cell that no line may have."""
        for name in (row.instance_id, row.node, row.flavor):
            if name is not None and not is_name(name):
                raise self._broken(line, f"{name!r} is not an id or a name")
        for column, words in _WORDS.items():
            word = getattr(row, column)
            if word is not None and word not in words:
                raise self._broken(line, f"the {column.replace('_', ' ')} {word!r} is unknown")
        if row.probability is not None and not 0 < row.probability < 1:
            raise self._broken(line, f"the probability {row.probability:g} is not between 0 and 1")

    def _broken(self, line: int, why: str) -> InputError:
        return InputError(f"{self._past.files[0]}, line {line}: {why}")

    def _policy(self, line: int, row: LogRow) -> None:
        if (fault := policy_fault(row)) is not None:
            raise self._broken(line, fault)
        if row.kind == "cloud_created" and row.seq != 1:
            raise self._broken(line, "a cloud is created by the first event of its log")
        if row.eviction_policy is None:
            return
        if row.kind == "cloud_created":
            self._past.eviction_policy = EvictionPolicy(row.eviction_policy)
        else:
            self._past.scratch.add_change(PastChange(0, line, row.at_us, row.kind, row.eviction_policy))

    def _node_added(self, line: int, row: LogRow) -> None:
        if not row.node or row.node in self._nodes or not _is_size(row.demand):
            raise self._broken(line, f"node {row.node!r} is there already, or has nothing")
        self._nodes.add(row.node)
        if self._is_replaced(line):
            return
        self._past.nodes = self._past.nodes or []
        self._past.scratch.add_change(PastChange(0, line, row.at_us, row.kind, row.node, *row.demand))

    def _node(self, line: int, row: LogRow) -> None:
        if row.node is None or row.node not in self._nodes:
            raise self._broken(line, f"there is no node {row.node!r}")
        if row.kind == "node_removed":
            self._nodes.remove(row.node)
        if not self._is_replaced(line):
            self._past.scratch.add_change(PastChange(0, line, row.at_us, row.kind, row.node))

    def _node_resized(self, line: int, row: LogRow) -> None:
        if row.node is None or row.node not in self._nodes or not _is_size(row.demand):
            raise self._broken(line, f"there is no node {row.node!r}, or it has nothing")
        if not self._is_replaced(line):
            self._past.scratch.add_change(PastChange(0, line, row.at_us, row.kind, row.node, *row.demand))

    def _is_replaced(self, line: int) -> bool:
        if self._past.wishes.nodes is None:
            return False
        self._past.findings.add(PastRule.NODES_REPLACED, FileLine(0, line))
        return True

    def _flavor_added(self, line: int, row: LogRow) -> None:
        if not row.flavor or not _is_size(row.demand) or self._past.flavors.get(row.flavor, row.demand) != row.demand:
            raise self._broken(line, f"flavor {row.flavor!r} is there already, with another size")
        self._past.add_flavor(row.flavor, row.demand)

    def _started(self, line: int, row: LogRow) -> None:
        if row.machine_count > 1 and row.market != Market.SPOT:
            raise self._broken(line, "a group is of spot instances")
        if not 1 <= row.machine_count <= MOST_MEMBERS:
            raise self._broken(line, f"a group has from 1 to {MOST_MEMBERS} members")
        self._running[row.instance_id or ""] = self._opened(line, row)

    def _rejected(self, line: int, row: LogRow) -> None:
        opened = self._opened(line, row)
        if row.market == Market.SPOT:
            self._past.findings.add(PastRule.REJECTED_SPOT, FileLine(0, line))
        else:
            self._keep(opened, row.at_us + (row.lifetime_us or 0), line, drawn_up=True)

    def _opened(self, line: int, row: LogRow) -> _OpenStart:
        if row.instance_id is None or row.instance_id in self._running:
            raise self._broken(line, f"instance {row.instance_id!r} was decided before")
        if row.market not in set(Market) or (row.market == Market.SPOT and row.lifetime_us is None):
            raise self._broken(line, "a start names its market, and a spot start its lifetime")
        if not _is_size(row.demand) or not 0 <= (row.lifetime_us or 0) <= MAX_TIME_US:
            raise self._broken(line, "it asks for nothing, or for less, or for too much")
        return _OpenStart(line, row, self._flavor(line, row))

    def _flavor(self, line: int, row: LogRow) -> str:
        name = row.flavor or flavor_name(row.demand.cores)
        known: Resources | None = self._past.flavors.get(name)
        if known is None:
            self._past.findings.add(PastRule.UNKNOWN_FLAVOR, FileLine(0, line))
            self._past.add_flavor(name, row.demand)
        elif known != row.demand:
            raise self._broken(line, f"it asks for another size than its flavor {name!r} has")
        return name

    def _ended(self, line: int, row: LogRow) -> None:
        started = self._running.pop(row.instance_id or "", None)
        if started is None:
            raise self._broken(line, f"instance {row.instance_id!r} ends but does not run")
        if row.aborted is not None:
            self._past.findings.add(PastRule.NEVER_RAN, FileLine(0, line))
        elif row.kind == "instance_stopped":
            self._keep(started, row.at_us, line)
        elif started.row.market == Market.SPOT:
            self._keep(started, max(row.at_us, started.row.at_us + (started.row.lifetime_us or 0)), line, drawn_up=True)
        else:
            raise self._broken(line, f"instance {row.instance_id!r} is on-demand and evicted")

    def _extended(self, line: int, row: LogRow) -> None:
        """Take the longer lifetime for the declared one; until the instance ends it makes no difference from when."""
        started = self._running.get(row.instance_id or "")
        if started is None or started.row.market != Market.SPOT:
            raise self._broken(line, f"instance {row.instance_id!r} is extended but is no running spot instance")
        if not (started.row.lifetime_us or 0) < (row.lifetime_us or 0) <= MAX_TIME_US:
            raise self._broken(line, "its lifetime does not become longer, or too long")
        longer = started._replace(row=started.row._replace(lifetime_us=row.lifetime_us))
        self._running[row.instance_id or ""] = longer

    def _room(self, line: int, row: LogRow) -> None:
        """Leave out an instance that stands for held room."""
        if row.kind in STARTS:
            self._taken_rooms.add(row.instance_id)
        elif row.kind in ENDS and row.instance_id not in self._taken_rooms:
            raise self._broken(line, f"instance {row.instance_id!r} ends but does not run")
        elif row.kind in ENDS:
            self._taken_rooms.remove(row.instance_id)
        self._left_out(PastRule.NOTICE, line, row)

    def _moved(self, line: int, row: LogRow) -> None:
        if row.instance_id not in self._running:
            raise self._broken(line, f"instance {row.instance_id!r} is moved but does not run")
        self._left_out(PastRule.MOVE, line, row)

    def _left_out(self, rule: PastRule, line: int, _: LogRow) -> None:
        self._past.findings.add(rule, FileLine(0, line))

    def _keep(self, started: _OpenStart, stop_us: int | None, end_line: int, *, drawn_up: bool = False) -> None:
        row, name = started.row, started.row.instance_id or ""
        is_spot = row.market == Market.SPOT
        times = row.at_us, stop_us, row.lifetime_us
        instance = PastInstance(
            0,
            started.line,
            end_line,
            is_spot,
            name,
            *times,
            started.flavor,
            drawn_up,
            in_order=True,
            members=row.machine_count,
        )
        if not self._past.scratch.add(instance):
            raise self._broken(started.line, f"instance {name!r} was decided before")
