"""A cloud's state: the fold of its event log.

`apply` is the only way to change it. `rollback` undoes what was applied since the last `commit`, so that a batch that
could not be made durable leaves no trace. Two folds of one log are equal bit for bit: see `digest`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import add, sub
from typing import Any, ClassVar, NamedTuple

import numpy as np

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
from app.domain.values import EvictionPolicy, EvictionReason, Market, NodeStatus, Policy, Resources, RiskLevel
from app.engine.cluster import (
    NEVER_US,
    NO_NODE,
    UNCOUNTED,
    YJF,
    YJF_GLOBAL,
    Cluster,
    Ints,
    available_slots,
    empty_cluster,
    first_fit,
    place,
    place_on_demand,
    release,
)
from app.engine.exposure import exposure

POLICY_CODE = {EvictionPolicy.YJF: YJF, EvictionPolicy.YJF_GLOBAL: YJF_GLOBAL}
_FIRST_ROWS = 64


@dataclass(frozen=True, slots=True)
class Node:
    """`index` is the position in node order; it is never used again after the node is removed."""

    index: int
    name: str
    capacity: Resources
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class Flavor:
    """`demand` is the compiled form (R) of `resources`."""

    name: str
    resources: Resources
    demand: np.ndarray = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Running:
    """A running instance. `seq` is its start's position in the log and so its rank in age."""

    instance_id: str
    seq: int
    started_us: int
    market: Market
    flavor: str
    node: str
    lifetime_us: int | None
    probability: float | None
    row: int

    @property
    def deadline_us(self) -> int:
        """When it starts to overrun; on-demand instances never do."""
        if self.market is Market.ON_DEMAND or self.lifetime_us is None:
            return NEVER_US
        return self.started_us + self.lifetime_us


@dataclass(frozen=True, slots=True)
class Handover:
    """An eviction under a grace period that no controller has confirmed: the room is booked, but may not be free."""

    instance_id: str
    node: str
    flavor: str
    reason: EvictionReason
    cause_seq: int
    scheduled_us: int
    deadline_us: int
    is_overdue: bool = False


OVERDUE_MAX = 1000
"""Overdue evictions that a state remembers; the oldest are given up first."""


class Counts(NamedTuple):
    """What was asked and what became of it, since the log began. Drills are not among the evicted."""

    on_demand_requested: int = 0
    on_demand_admitted: int = 0
    spot_requested: int = 0
    spot_admitted: int = 0
    spot_evicted: int = 0
    spot_drilled: int = 0


class ClassCounts(NamedTuple):
    """What became of the instances that are promised one eviction probability; overruns have no promise left."""

    admitted: int = 0
    evicted: int = 0


class Cloud:
    """The folded state of one cloud; see the module's docstring for who may change it, and how."""

    def __init__(self) -> None:
        self.seq = 0
        self.at_us = 0
        self.last: Event | None = None
        """The event at `seq`; None after a snapshot, which keeps its time alone."""
        self.created_us = 0
        self.policy = Policy()
        self.counts = Counts()
        self.classes: dict[float, ClassCounts] = {}
        self.on_demand_peak = Resources(0)
        self.nodes: dict[str, Node] = {}
        self.flavors: dict[str, Flavor] = {}
        self.running: dict[str, Running] = {}
        self.handovers: dict[str, Handover] = {}
        self.at_risk: set[str] = set()
        self.cluster: Cluster = empty_cluster(0, _FIRST_ROWS, len(Resources._fields))
        self._node_names: list[str] = []
        self._rows: list[str | None] = [None] * _FIRST_ROWS
        self._free_rows = list(range(_FIRST_ROWS - 1, -1, -1))
        self._victims = np.empty(_FIRST_ROWS, np.int64)
        self._promises = np.zeros(_FIRST_ROWS)
        self._on_demand = Resources(0)
        self._open_capacity: Resources | None = None
        self._undo: list[Callable[[], None]] = []

    # --- reading -----------------------------------------------------------------------------------------------------

    def first_fit(self, flavor: str) -> str | None:
        """The node that a spot start of this flavor would take, or None."""
        node = first_fit(self.cluster, self.flavors[flavor].demand)
        return None if node == NO_NODE else self._node_names[node]

    def available_slots(self, flavor: str) -> int:
        """How many more instances of this flavor fit now."""
        return int(available_slots(self.cluster, self.flavors[flavor].demand))

    def place_on_demand(self, flavor: str, now_us: int) -> tuple[str | None, tuple[str, ...]]:
        """The node that an on-demand start would take and its victims, youngest first; (None, ()) where none can."""
        code = POLICY_CODE[self.policy.eviction_policy]
        node, count = place_on_demand(self.cluster, self.flavors[flavor].demand, now_us, code, self._victims)
        if node == NO_NODE:
            return None, ()
        return self._node_names[node], tuple(self._instance_at(row) for row in self._victims[:count].tolist())

    def exposure(self, flavor: str, probability: float, now_us: int) -> tuple[float, float]:
        """The charges of a class's running instances, and the share of the room that one more start would reach.

        The room is what the highest on-demand load so far would leave of the open nodes; see engine.exposure.
        """
        return self._exposure(probability, now_us, self.flavors[flavor].demand)

    def charges(self, probability: float, now_us: int) -> float:
        """The charges of a class's running instances."""
        return self._exposure(probability, now_us, np.zeros(len(Resources._fields), np.int64))[0]

    def _exposure(self, probability: float, now_us: int, demand: Ints) -> tuple[float, float]:
        room = np.array([size - peak for size, peak in zip(self._capacity(), self.on_demand_peak, strict=True)])
        return exposure(self.cluster, self._promises, probability, room, now_us, now_us - self.created_us, demand)

    def on_node(self, node: str) -> list[Running]:
        """What runs on the node, oldest first."""
        index = self.nodes[node].index
        rows = np.flatnonzero(self.cluster.node_of == index).tolist()
        return sorted((self.running[self._instance_at(row)] for row in rows), key=lambda running: running.seq)

    def free(self, node: str) -> Resources:
        """What is left of the node's capacity; 0 of a resource that it does not count."""
        found = self.nodes[node]
        left = self.cluster.free[found.index].tolist()
        return Resources(*(room if counted else 0 for room, counted in zip(left, found.capacity, strict=True)))

    def ready_us(self, node: str, flavor: str, evicted: Iterable[str], deadline_us: int, now_us: int) -> int | None:
        """From when an instance's room on a node is free, if it is placed now at the cost of `evicted`; None: at once.

        What was evicted but not confirmed is still there until its deadline. The room of everything that is booked on
        the node, this instance included, and what is still there must fit side by side.
        """
        index = self.nodes[node].index
        leaving = [self._demand_of(self.running[name]) for name in evicted if self._is_on(name, node)]
        free = self.cluster.free[index] - self.flavors[flavor].demand + sum(leaving)
        there = [(deadline_us, demand) for demand in leaving] + [
            (one.deadline_us, self.flavors[one.flavor].demand) for one in self.handovers.values() if one.node == node
        ]
        for until_us in (now_us, *sorted(at_us for at_us, _ in there)):
            if bool((free - sum(demand for at_us, demand in there if at_us > until_us) >= 0).all()):
                return until_us if until_us > now_us else None
        raise AssertionError(f"the instance does not fit on {node}")

    def node_order(self) -> tuple[str, ...]:
        """The names of all nodes ever added, in node order; one that was removed and added again stands there twice."""
        return tuple(self._node_names)

    def digest(self) -> str:
        """A hash of everything that a later decision could depend on."""
        facts = (
            self.seq,
            self.at_us,
            self.created_us,
            self.policy,
            self.counts,
            sorted(self.classes.items()),
            self.on_demand_peak,
            [(node, self.free(node.name)) for node in sorted(self.nodes.values(), key=lambda n: n.index)],
            [(flavor.name, flavor.resources) for flavor in self.flavors.values()],
            [replace(running, row=0) for running in sorted(self.running.values(), key=lambda r: r.seq)],
            self.known_handovers(),
            sorted(self.at_risk),
        )
        return hashlib.sha256(repr(facts).encode()).hexdigest()

    # --- changing ----------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> Recorded:
        """Fold the next event into the state and number it."""
        if event.at_us < self.at_us:
            raise AssertionError(f"time runs backwards: {event} after {self.at_us}")
        before = self.seq, self.at_us, self.last, self.counts, self.on_demand_peak
        self._undo.append(lambda: self._reset(*before))
        self.seq += 1
        self.at_us = event.at_us
        self.last = event
        self._folds[type(event)](self, event)
        return Recorded(self.seq, event)

    def apply_recorded(self, recorded: Iterable[Recorded]) -> None:
        """Fold the log's next events; they are durable already, so there is no way back from them."""
        for item in recorded:
            if item.seq != self.seq + 1:
                raise AssertionError(f"event {item.seq} cannot follow {self.seq}")
            self.apply(item.event)
            self._undo.clear()

    def commit(self) -> None:
        """Keep what was applied."""
        self._undo.clear()

    def rollback(self) -> None:
        """Undo what was applied since the last commit, newest first."""
        while self._undo:
            self._undo.pop()()

    def _create(self, event: CloudCreated) -> None:
        self.created_us = event.at_us
        self._set_policy(event.policy)

    def _change_policy(self, event: PolicyChanged) -> None:
        self._set_policy(event.policy)

    def _add_node(self, event: NodeAdded) -> None:
        cluster, names, old = self.cluster, self._node_names, self.nodes.get(event.node)
        index = len(names)
        room = np.array([[size or UNCOUNTED for size in event.capacity]], np.int64)
        self.cluster = cluster._replace(
            free=np.concatenate([cluster.free, room]), is_open=np.append(cluster.is_open, True)
        )
        self._node_names = [*names, event.node]
        self.nodes[event.node] = Node(index, event.node, event.capacity, NodeStatus.OPEN)
        self._open_capacity = None
        self._undo.append(lambda: self._forget_node(event.node, old))

    def _drain_node(self, event: NodeDrained) -> None:
        self._set_node_status(event.node, NodeStatus.DRAINED)

    def _open_node(self, event: NodeOpened) -> None:
        self._set_node_status(event.node, NodeStatus.OPEN)

    def _remove_node(self, event: NodeRemoved) -> None:
        self._set_node_status(event.node, NodeStatus.REMOVED)

    def _add_flavor(self, event: FlavorAdded) -> None:
        demand = np.array(event.demand, np.int64)
        self.flavors[event.flavor] = Flavor(event.flavor, event.demand, demand)
        self._undo.append(lambda: self._forget_flavor(event.flavor))

    def _start(self, event: InstanceStarted) -> None:
        self._count_start(event.market, admitted=True)
        row = self._take_row()
        self._enter(
            Running(
                event.instance_id,
                self.seq,
                event.at_us,
                event.market,
                event.flavor,
                event.node,
                event.lifetime_us,
                event.probability if event.basis is None else event.basis.probability,
                row,
            )
        )
        self._undo.append(lambda: self._forget_running(event.instance_id))
        if event.market is Market.ON_DEMAND:
            self.on_demand_peak = Resources(*map(max, self.on_demand_peak, self._on_demand))
        else:
            self._count_class(self.running[event.instance_id].probability, admitted=1)

    def _reject(self, event: InstanceRejected) -> None:
        self._count_start(event.market, admitted=False)

    def _schedule(self, event: EvictionScheduled) -> None:
        running = self.running[event.instance_id]
        handover = Handover(
            event.instance_id,
            running.node,
            running.flavor,
            event.reason,
            event.cause_seq,
            event.at_us,
            event.deadline_us,
        )
        self._put_handovers({**self.handovers, event.instance_id: handover})

    def _confirm(self, event: EvictionConfirmed) -> None:
        self._put_handovers({name: one for name, one in self.handovers.items() if name != event.instance_id})

    def _overdue(self, event: EvictionOverdue) -> None:
        changed = dict(self.handovers)
        changed[event.instance_id] = replace(changed[event.instance_id], is_overdue=True)
        overdue = sorted((one for one in changed.values() if one.is_overdue), key=_due)
        for given_up in overdue[: max(0, len(overdue) - OVERDUE_MAX)]:
            del changed[given_up.instance_id]
        self._put_handovers(changed)

    def _put_handovers(self, handovers: dict[str, Handover]) -> None:
        old, self.handovers = self.handovers, handovers
        self._undo.append(lambda: setattr(self, "handovers", old))

    def _risk(self, event: EvictionRisk) -> None:
        self._put_risk(event.instance_id, raised=event.level is RiskLevel.RAISED)

    def _put_risk(self, instance_id: str, *, raised: bool) -> None:
        if raised == (instance_id in self.at_risk):
            return
        change, back = self.at_risk.add, self.at_risk.discard
        if not raised:
            change, back = back, change
        change(instance_id)
        self._undo.append(lambda: back(instance_id))

    def _stop(self, event: InstanceStopped) -> None:
        self._end(event.instance_id)

    def _evict(self, event: InstanceEvicted) -> None:
        if event.reason is EvictionReason.DRILL:
            self.counts = self.counts._replace(spot_drilled=self.counts.spot_drilled + 1)
            self._end(event.instance_id)
            return
        self.counts = self.counts._replace(spot_evicted=self.counts.spot_evicted + 1)
        running = self.running[event.instance_id]
        if event.at_us <= running.deadline_us:
            self._count_class(running.probability, evicted=1)
        self._end(event.instance_id)

    # --- steps -------------------------------------------------------------------------------------------------------

    def restore_running(self, running: Running) -> None:
        """Enter an instance that a snapshot says is running (its row is chosen anew)."""
        self._enter(replace(running, row=self._take_row()))

    def known_handovers(self) -> list[Handover]:
        """Evictions that no controller has confirmed, by deadline."""
        return sorted(self.handovers.values(), key=_due)

    def _demand_of(self, running: Running) -> np.ndarray:
        return self.flavors[running.flavor].demand

    def _is_on(self, instance_id: str, node: str) -> bool:
        return self.running[instance_id].node == node

    def _instance_at(self, row: int) -> str:
        instance_id = self._rows[row]
        assert instance_id is not None
        return instance_id

    def _reset(self, seq: int, at_us: int, last: Event | None, counts: Counts, peak: Resources) -> None:
        self.seq, self.at_us, self.last, self.counts, self.on_demand_peak = seq, at_us, last, counts, peak

    def _capacity(self) -> Resources:
        """What the open nodes have in all; UNCOUNTED and more of what one of them does not count."""
        if self._open_capacity is None:
            self._open_capacity = Resources(0)
            for node in self.nodes.values():
                if node.status is NodeStatus.OPEN:
                    self._open_capacity = _plus(self._open_capacity, [size or UNCOUNTED for size in node.capacity])
        return self._open_capacity

    def _count_class(self, probability: float | None, *, admitted: int = 0, evicted: int = 0) -> None:
        if probability is None:
            return
        old = self.classes.get(probability, ClassCounts())
        self._undo.append(lambda: self._put_class(probability, old))
        self._put_class(probability, ClassCounts(old.admitted + admitted, old.evicted + evicted))

    def _put_class(self, probability: float, counts: ClassCounts) -> None:
        if counts == ClassCounts():
            self.classes.pop(probability, None)
        else:
            self.classes[probability] = counts

    def _set_policy(self, policy: Policy) -> None:
        old, self.policy = self.policy, policy
        self._undo.append(lambda: setattr(self, "policy", old))

    def _set_node_status(self, name: str, status: NodeStatus) -> None:
        old = self.nodes[name]
        self._put_node(replace(old, status=status))
        self._undo.append(lambda: self._put_node(old))

    def _put_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        self.cluster.is_open[node.index] = node.status is NodeStatus.OPEN
        self._open_capacity = None

    def _forget_node(self, name: str, old: Node | None) -> None:
        del self.nodes[name]
        if old is not None:
            self.nodes[name] = old
        self._open_capacity = None
        self._node_names = self._node_names[:-1]
        self.cluster = self.cluster._replace(
            free=self.cluster.free[:-1].copy(), is_open=self.cluster.is_open[:-1].copy()
        )

    def _forget_flavor(self, name: str) -> None:
        del self.flavors[name]

    def _count_start(self, market: Market, *, admitted: bool) -> None:
        asked, started, spot_asked, spot_started, *ended = self.counts
        if market is Market.SPOT:
            self.counts = Counts(asked, started, spot_asked + 1, spot_started + admitted, *ended)
        else:
            self.counts = Counts(asked + 1, started + admitted, spot_asked, spot_started, *ended)

    def _take_row(self) -> int:
        if not self._free_rows:
            self._grow()
        return self._free_rows.pop()

    def _grow(self) -> None:
        count = len(self._rows)
        more = empty_cluster(0, count, len(Resources._fields))
        grown = [np.concatenate([old, new]) for old, new in zip(self.cluster[2:], more[2:], strict=True)]
        self.cluster = Cluster(self.cluster.free, self.cluster.is_open, *grown)
        self._promises = np.concatenate([self._promises, np.zeros(count)])
        self._rows += [None] * count
        self._free_rows += range(2 * count - 1, count - 1, -1)
        self._victims = np.empty(2 * count, np.int64)

    def _enter(self, running: Running) -> None:
        row, cluster = running.row, self.cluster
        self._rows[row] = running.instance_id
        self.running[running.instance_id] = running
        cluster.demand[row] = self.flavors[running.flavor].demand
        cluster.born[row] = running.seq
        cluster.deadline_us[row] = running.deadline_us
        cluster.is_spot[row] = running.market is Market.SPOT
        self._promises[row] = running.probability or 0.0
        if running.market is Market.ON_DEMAND:
            self._on_demand = _plus(self._on_demand, self.flavors[running.flavor].resources)
        place(cluster, row, self.nodes[running.node].index)

    def _leave(self, instance_id: str) -> Running:
        running = self.running.pop(instance_id)
        release(self.cluster, running.row)
        if running.market is Market.ON_DEMAND:
            self._on_demand = _minus(self._on_demand, self.flavors[running.flavor].resources)
        self._rows[running.row] = None
        self._free_rows.append(running.row)
        return running

    def _forget_running(self, instance_id: str) -> None:
        self._leave(instance_id)

    def _end(self, instance_id: str) -> None:
        self._put_risk(instance_id, raised=False)
        running = self._leave(instance_id)
        self._undo.append(lambda: self._reenter(running))

    def _reenter(self, running: Running) -> None:
        self._free_rows.remove(running.row)
        self._enter(running)

    _folds: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        CloudCreated: _create,
        PolicyChanged: _change_policy,
        NodeAdded: _add_node,
        NodeDrained: _drain_node,
        NodeOpened: _open_node,
        NodeRemoved: _remove_node,
        FlavorAdded: _add_flavor,
        InstanceStarted: _start,
        InstanceRejected: _reject,
        InstanceStopped: _stop,
        InstanceEvicted: _evict,
        EvictionScheduled: _schedule,
        EvictionConfirmed: _confirm,
        EvictionOverdue: _overdue,
        EvictionRisk: _risk,
    }


def _due(handover: Handover) -> tuple[int, str]:
    return handover.deadline_us, handover.instance_id


def _plus(some: Resources, more: Iterable[int]) -> Resources:
    return Resources(*map(add, some, more))


def _minus(some: Resources, less: Iterable[int]) -> Resources:
    return Resources(*map(sub, some, less))


def warm_up() -> None:
    """Have every compiled function of the live scheduler ready, so that no request waits for the compiler."""
    cloud = Cloud()
    cloud.apply(CloudCreated(at_us=0, policy=Policy()))
    cloud.apply(FlavorAdded(at_us=0, flavor="flavor", demand=Resources(1)))
    cloud.apply(NodeAdded(at_us=0, node="node", capacity=Resources(1)))
    cloud.apply(InstanceStarted(at_us=0, instance_id="spot", market=Market.SPOT, flavor="flavor", node="node"))
    cloud.place_on_demand("flavor", 0)
    cloud.first_fit("flavor")
    cloud.available_slots("flavor")
    cloud.exposure("flavor", 0.01, 0)
    cloud.rollback()
