"""The evictions in a lab's log, and the servers in Nova's own database, read without any of Tenure's code.

Nova is asked by its database and not by its interface, which would be slower for what is measured.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from typing import Any

import psycopg
from keystoneauth1.exceptions import ClientException
from lab_processes import until
from nova_lab import CLOUD, NovaLab
from openstack.exceptions import SDKException

_SERVERS = """
SELECT uuid, vm_state, task_state, node, deleted_at FROM instances WHERE uuid = ANY(%s)
"""
_DELETIONS = """
SELECT action.instance_uuid, min(action.start_time), min(event.start_time)
FROM instance_actions AS action LEFT JOIN instance_actions_events AS event
    ON event.action_id = action.id AND event.event = 'compute_terminate_instance'
WHERE action.action IN ('delete', 'forceDelete') AND action.instance_uuid = ANY(%s) GROUP BY 1
"""
_SPOT = (
    "SELECT instance_uuid FROM instance_extra WHERE instance_uuid = ANY(%s) AND position('tenure:market' IN flavor) > 0"
)
Size = tuple[int, int, int]


@dataclass(frozen=True)
class NovaRow:
    """A server in Nova's database. `gone_at` is the time of its deletion."""

    state: str
    task: str | None
    node: str | None
    gone_at: datetime | None


@dataclass(frozen=True)
class Departure:
    """An eviction in the log. `deadline` is the time until which it may run on: at once without a grace period."""

    seq: int
    server: str
    node: str
    at: datetime
    deadline: datetime
    reason: str
    cause_seq: int


@dataclass
class Runs:
    """An instance that runs, in the fold of the log. `seq` is the number of its start: its rank by youth."""

    seq: int
    market: str
    size: Size
    node: str


@dataclass
class Ledger:
    """A fold of a lab's log, with a word for each eviction that is not that of the youngest and as few as needed."""

    departures: list[Departure] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    starts: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: list[tuple[str, str]] = field(default_factory=list)
    running: dict[str, Runs] = field(default_factory=dict)
    capacity: dict[str, Size] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    _sizes: dict[str, Size] = field(default_factory=dict)
    _deadlines: dict[str, datetime] = field(default_factory=dict)
    _leaving: dict[int, list[str]] = field(default_factory=dict)

    def read(self, events: Iterable[Any]) -> Ledger:
        for event in events:
            handle = getattr(self, f"_{event.kind}", None)
            if handle is not None:
                handle(event, event.fields)
        return self

    def free(self, node: str) -> list[int]:
        """Return what is free on a node; a resource that it does not count has no end."""
        used = [one.size for one in self.running.values() if one.node == node]
        return [size - sum(each) if size else 1 << 40 for size, *each in zip(self.capacity[node], *used, strict=True)]

    # One method for each kind of event.

    def _node_added(self, _event: Any, told: Mapping[str, Any]) -> None:
        self.capacity[told["node"]] = _size(told["capacity"])

    def _node_drained(self, _event: Any, told: Mapping[str, Any]) -> None:
        self.closed.add(told["node"])

    def _node_opened(self, _event: Any, told: Mapping[str, Any]) -> None:
        self.closed.discard(told["node"])

    def _node_resized(self, event: Any, told: Mapping[str, Any]) -> None:
        former, self.capacity[told["node"]] = self.capacity[told["node"]], _size(told["capacity"])
        assert former is not None
        self._leave(event, told["node"], (0, 0, 0))

    def _node_removed(self, event: Any, told: Mapping[str, Any]) -> None:
        self._go(self._leaving.pop(event.seq, []))
        self.capacity.pop(told["node"])

    def _flavor_added(self, _event: Any, told: Mapping[str, Any]) -> None:
        self._sizes[told["flavor"]] = _size(told["demand"])

    def _eviction_scheduled(self, _event: Any, told: Mapping[str, Any]) -> None:
        self._deadlines[told["id"]] = datetime.fromisoformat(told["deadline"])

    def _instance_evicted(self, event: Any, told: Mapping[str, Any]) -> None:
        name = told["id"]
        if name not in self.running or self.running[name].market != "spot":
            self.faults.append(f"{event.seq}: {name} is evicted, and is no running spot instance")
            return
        self.ends.append((name, "evicted"))
        deadline = self._deadlines.pop(name, event.at)
        node, server = self.running[name].node, name.partition(".")[0]
        if told["cause_seq"] == event.seq:  # a drill
            self.running.pop(name)
        else:
            self._leaving.setdefault(told["cause_seq"], []).append(name)
        self.departures.append(
            Departure(event.seq, server, node, event.at, deadline, told["reason"], told["cause_seq"])
        )

    def _instance_started(self, event: Any, told: Mapping[str, Any]) -> None:
        size, is_observed = self._sizes[told["flavor"]], bool(told.get("observed"))
        if event.seq in self._leaving and not is_observed:
            allowed = told.get("allowed") or self.capacity
            roomy = [name for name in allowed if name not in self.closed and _fits(self.free(name), size)]
            if roomy:
                self.faults.append(f"{event.seq}: {roomy[0]} had room, and somebody was evicted")
        self._leave(event, told["node"], size)
        self.starts[told["id"]] = dict(told)
        self.running[told["id"]] = Runs(event.seq, told["market"], size, told["node"])

    def _instance_stopped(self, _event: Any, told: Mapping[str, Any]) -> None:
        self.ends.append((told["id"], "aborted" if told.get("aborted") else "stopped"))
        self.running.pop(told["id"])

    def _instance_moved(self, event: Any, told: Mapping[str, Any]) -> None:
        moved = self.running.pop(told["id"])
        size = self._sizes[told["as_flavor"]] if told.get("as_flavor") else moved.size
        self._leave(event, told["node"], size)
        self.running[told["id"]] = Runs(moved.seq, moved.market, size, told["node"])

    # The rule.

    def _leave(self, event: Any, node: str, demand: Sequence[int]) -> None:
        """Compare those evicted for an event with the youngest of the node, as few as make room for the demand."""
        victims = self._leaving.pop(event.seq, [])
        there = sorted(
            (name for name, one in self.running.items() if one.node == node and one.market == "spot"),
            key=lambda name: -self.running[name].seq,
        )
        expected = _youngest(self.free(node), demand, there, {name: self.running[name].size for name in there})
        if {*victims} != {*expected}:
            self.faults.append(f"{event.seq}: {sorted(victims)} left {node}, and not {sorted(expected)}")
        self._go(victims)

    def _go(self, victims: Iterable[str]) -> None:
        for name in victims:
            self.running.pop(name)


def ledger_of(lab: NovaLab) -> Ledger:
    return Ledger().read(lab.tenure.events(CLOUD))


def _size(told: Mapping[str, int]) -> Size:
    return told["cores"], told["memory_mib"], told["disk_gib"]


def _fits(free: Sequence[int], demand: Sequence[int]) -> bool:
    return all(have >= need for have, need in zip(free, demand, strict=True))


def _youngest(
    free: Sequence[int], demand: Sequence[int], youngest_first: Sequence[str], sizes: Mapping[str, Size]
) -> list[str]:
    """Return the youngest that make room for a demand, without those that are not needed for it."""
    taken: list[str] = []
    room = [*free]
    for name in youngest_first:
        if _fits(room, demand):
            break
        taken.append(name)
        room = [have + more for have, more in zip(room, sizes[name], strict=True)]
    for name in reversed([*taken]):
        without = [have - less for have, less in zip(room, sizes[name], strict=True)]
        if _fits(without, demand):
            taken.remove(name)
            room = without
    return taken


# Nova's database.


def rows(lab: NovaLab, servers: Iterable[str]) -> dict[str, NovaRow]:
    """Return servers as Nova's databases have them; those that found no host are in another one."""
    found: dict[str, NovaRow] = {}
    for name in ("nova_cell0", "nova"):
        with psycopg.connect(lab.database_url(name)) as connection:
            for one in connection.execute(_SERVERS, [[*servers]]):
                gone_at = None if one[4] is None else one[4].replace(tzinfo=UTC)
                found[str(one[0])] = NovaRow(str(one[1]), one[2], one[3], gone_at)
    return found


def deletions(lab: NovaLab, servers: Iterable[str]) -> dict[str, tuple[datetime, datetime | None]]:
    """Return for each deleted server when Nova's API took its deletion, and when its compute began with it."""
    with psycopg.connect(lab.database_url("nova")) as connection:
        told = connection.execute(_DELETIONS, [[*servers]]).fetchall()
    return {str(one[0]): (one[1].replace(tzinfo=UTC), one[2] and one[2].replace(tzinfo=UTC)) for one in told}


def spot_of(lab: NovaLab, servers: Iterable[str]) -> set[str]:
    """Return those of the servers whose flavor in Nova's database is a spot flavor."""
    with psycopg.connect(lab.database_url("nova")) as connection:
        return {str(one[0]) for one in connection.execute(_SPOT, [[*servers]])}


def wait_until_built(lab: NovaLab, servers: Sequence[str], within_s: float) -> dict[str, NovaRow]:
    """Wait until none of them is being built any more."""

    def unbuilt() -> list[str]:
        found = rows(lab, servers)
        return [one for one in servers if one not in found or found[one].state == "building"]

    until(lambda: not unbuilt(), within_s, lambda: f"still being built: {unbuilt()}", 0.5)
    return rows(lab, servers)


def wait_until_gone(lab: NovaLab, servers: Sequence[str], within_s: float) -> dict[str, NovaRow]:
    """Wait until all of them are deleted; return after `within_s` whatever is so then."""
    give_up_s = time.monotonic() + within_s
    while time.monotonic() < give_up_s and any(one.gone_at is None for one in rows(lab, servers).values()):
        time.sleep(0.5)
    return rows(lab, servers)


def create_at_once(lab: NovaLab, flavors: Sequence[str], threads: int, **hints: str) -> list[str]:
    """Ask for servers from several threads; return their ids. Hints go to spot flavors alone."""
    lab.flavor_id(flavors[0])
    assert lab._image_id

    def create(flavor: str) -> str:
        return str(lab.create(flavor, flavor, **(hints if flavor.startswith("spot.") else {})).id)

    with ThreadPoolExecutor(threads) as asking:
        return [*asking.map(create, flavors)]


def delete_at_once(lab: NovaLab, servers: Sequence[str], threads: int) -> list[str]:
    """Delete servers from several threads; return those whose deletion was not taken."""

    def delete(server: str) -> bool:
        try:
            lab.cloud.compute.delete_server(server)
        except (SDKException, ClientException):
            return False
        return True

    with ThreadPoolExecutor(threads) as asking:
        taken = [*asking.map(delete, servers)]
    return [server for server, is_taken in zip(servers, taken, strict=True) if not is_taken]


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that so large a share of the values does not exceed."""
    return sorted(values)[max(ceil(share * len(values)) - 1, 0)] if values else 0.0


class Report:
    """Lines of what was found, each with its bar where it has one."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def tell(self, name: str, value: object) -> None:
        sys.stdout.write(f"       {name}: {value}\n")
        sys.stdout.flush()

    def hold(self, name: str, value: object, bar: str, *, holds: bool) -> None:
        """Tell a value, and whether it keeps to its bar."""
        sys.stdout.write(f"{'holds' if holds else 'FAILS'}  {name}: {value} (must be {bar})\n")
        sys.stdout.flush()
        if not holds:
            self.failed.append(name)

    def late(self, name: str, late_s: Sequence[float], most_s: float, share: float = 1.0) -> None:
        """Tell delays, and whether a share of them is short enough."""
        told = f"median {percentile(late_s, 0.5):.1f} s, p95 {percentile(late_s, 0.95):.1f} s"
        told += f", longest {max(late_s, default=0):.1f} s of {len(late_s)}"
        which = "longest" if share == 1 else f"p{100 * share:.0f}"
        self.hold(name, told, f"{which} <= {most_s:g} s", holds=percentile(late_s, share) <= most_s)
