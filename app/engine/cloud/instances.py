"""The part of a cloud's state that holds the running instances, their nodes and their rows in the compiled form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.budgets import BudgetUnit
from app.domain.events import ExtensionRejected, InstanceEvicted, InstanceExtended, InstanceStarted, InstanceStopped
from app.domain.requests import Operation, StartRequest
from app.domain.values import Market, Resources
from app.engine.ages import SpotAges
from app.engine.cloud.head import Head
from app.engine.cloud.nodes import Flavors, Nodes, minus, plus
from app.engine.cloud.records import FIRST_ROWS, Alike, Facts, Fold, Folded, Room, Running, Undo, risk_of
from app.engine.cloud.rows import InstanceRows
from app.engine.cluster import (
    GOES_FIRST_US,
    NEVER_US,
    NO_NODE,
    STOP,
    Bools,
    Ints,
    fitting_nodes,
    move_run,
    place,
    plan_run,
    release,
)
from app.engine.eviction import place_on_demand
from app.engine.exposure import exposure


class Instances:
    """The running instances by id.

    `on_demand` is the sum of the resources that on-demand instances use. `at_risk` are the instances whose last notice
    of risk said that it began; some of them may have ended while a run of events is folded. An instance has one row, a
    group one for each of its members; what is counted once for a group stands in the first of them.
    """

    def __init__(self, room: Room, head: Head, nodes: Nodes, flavors: Flavors) -> None:
        self.running: dict[str, Running] = {}
        self.on_demand = Resources(0)
        self.at_risk: set[str] = set()
        self._room, self._head, self._nodes, self._flavors = room, head, nodes, flavors
        self._moments, self._lengths, self._shares = Alike[int](), Alike[int | None](), Alike[float | None]()
        self._names = Alike[str | None]()
        self.rows = InstanceRows(room, self.at_risk, flavors)
        self.ages = SpotAges()
        self._victims = np.empty(FIRST_ROWS, np.int64)

    @property
    def machine_count(self) -> int:
        """The number of running machines: single instances, and the members of groups."""
        return self.rows.taken

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceStopped: self._end,
            InstanceEvicted: self._end,
            InstanceExtended: self._extend,
            ExtensionRejected: _keep,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"running": [*self.running.values()]}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts, with newly chosen rows."""
        for running in facts.running:
            row, *more = (self.rows.take(running.market) for _ in range(running.count))
            self._enter(self._sharing(replace(running, row=row, more_rows=tuple(more))))

    def _sharing(self, one: Running) -> Running:
        """Return the instance with values that it shares with others."""
        return replace(
            one,
            started_us=self._moments[one.started_us],
            flavor=self._flavors.by_name[one.flavor].name,
            node=self._nodes.by_name[one.node].name,
            lifetime_us=self._lengths[one.lifetime_us],
            probability=self._shares[one.probability],
            risk=self._shares[one.risk],
            owner=self._names[one.owner],
            nodes=tuple(self._nodes.by_name[node].name for node in one.nodes),
        )

    def on_node(self, node: str) -> list[Running]:
        """Return the instances of which a machine runs on the node, oldest first."""
        rows = np.flatnonzero(self._room.cluster.node_of == self._nodes.by_name[node].index).tolist()
        return sorted((self.running[name] for name in self.rows.at(rows)), key=lambda running: running.seq)

    def youngest_spot(self) -> Running | None:
        """Return the spot instance started last, or None if none runs."""
        rows = np.flatnonzero(self._are_spot())
        if not len(rows):
            return None
        (name,) = self.rows.at([int(rows[np.argmax(self._room.cluster.born[rows])])])
        return self.running[name]

    def put_at_risk(self, instance_id: str, *, at_risk: bool) -> None:
        """Enter an instance among those at risk, or take it out."""
        (self.at_risk.add if at_risk else self.at_risk.discard)(instance_id)
        if (running := self.running.get(instance_id)) is not None:
            self.rows.are_at_risk[running.row] = at_risk

    def first_at_risk(self, count: int, now_us: int) -> list[Running]:
        """Return the instances at risk that would be evicted first: overrunning ones, then the youngest."""
        cluster, rows = self._room.cluster, np.flatnonzero(self.rows.are_at_risk)
        rank = cluster.born[rows] + NEVER_US * (now_us > cluster.deadline_us[rows])
        if len(rows) > count:
            rows, rank = (every[np.argpartition(rank, -count)[-count:]] for every in (rows, rank))
        return [self.running[name] for name in self.rows.at(rows[np.argsort(-rank)].tolist())]

    def oldest(self, after_seq: int, count: int, market: Market | None) -> tuple[str, ...]:
        """Return the ids of the first `count` instances that started after a seq, of one market or of both (None)."""
        cluster = self._room.cluster
        asked = self.rows.columns.are_first & (cluster.born > after_seq)
        if market is not None:
            asked &= cluster.is_spot == (market is Market.SPOT)
        rows = np.flatnonzero(asked)
        if len(rows) > count:
            rows = rows[np.argpartition(cluster.born[rows], count)[:count]]
        return self.rows.at(rows[np.argsort(cluster.born[rows])].tolist())

    def promises_within(self, now_us: int) -> dict[float, int]:
        """Return the number of running spot instances within their lifetime, by promised probability; 0: none."""
        columns = self.rows.columns
        within = columns.are_first & self._are_spot() & (now_us < self._room.cluster.deadline_us)
        promised, counts = np.unique(columns.promises[within], return_counts=True)
        return dict(zip(promised.tolist(), counts.tolist(), strict=True))

    def use_by_node(self) -> tuple[Ints, Ints]:
        """Return the cores in use and the counts of instances (N, 2), by node and market: on-demand, spot.

        A group counts once on each node of its members.
        """
        cluster, shape = self._room.cluster, (len(self._room.cluster.free), 2)
        rows = np.flatnonzero(cluster.node_of != NO_NODE)
        at = cluster.node_of[rows], cluster.is_spot[rows].astype(np.int64)
        cores, counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        np.add.at(cores, at, cluster.demand[rows, Resources._fields.index("cores")])
        np.add.at(counts, at, self.rows.columns.count_there[rows].astype(np.int64))
        return cores, counts

    def counts(self) -> tuple[int, int]:
        """Return how many instances run, by market: on-demand, spot. A group counts once."""
        spot = int(np.count_nonzero(self.rows.columns.are_first & self._room.cluster.is_spot))
        return len(self.running) - spot, spot

    @property
    def deadlines_us(self) -> Ints:
        """The deadline of each row."""
        return self._room.cluster.deadline_us

    def _are_spot(self) -> Bools:
        found: Bools = self._room.cluster.is_spot & (self._room.cluster.node_of != NO_NODE)
        return found

    def plan(self, demand: Ints, now_us: int, placement: int, code: int) -> tuple[int, tuple[str, ...]]:
        """Return the index of the node for an on-demand start, and its victims, youngest first."""
        if len(self._victims) < len(self._room.cluster.node_of):
            self._victims = np.empty(len(self._room.cluster.node_of), np.int64)
        node, count = place_on_demand(self._room.cluster, demand, now_us, placement, code, self._victims)
        return node, self.rows.at(self._victims[:count].tolist())

    def fitting_nodes(self, demand: Ints, count: int, placement: int) -> list[int]:
        """Return the indices of the nodes that the members of a group take, none if they do not all fit."""
        cluster = self._room.cluster
        room = cluster._replace(free=cluster.free.copy())
        found: list[int] = fitting_nodes(room, demand, count, placement).tolist()
        return found

    def plan_run(self, run: Iterable[Operation], placement: int) -> list[int]:
        """Return the indices of the nodes of on-demand starts, and of stops of running single instances, in order.

        They end before the first start that fits nowhere.
        """
        kinds: dict[str, int] = {}
        begun: dict[str, int] = {}
        steps = []
        for number, step in enumerate(run):
            if isinstance(step, StartRequest):
                begun[step.instance_id] = number
                steps.append((kinds.setdefault(step.flavor, len(kinds)), 0))
            else:
                of = begun.get(step.instance_id)
                steps.append((STOP, self.running[step.instance_id].row if of is None else ~of))
        cluster = self._room.cluster
        room = cluster._replace(free=cluster.free.copy())
        found: list[int] = plan_run(room, self._demands(kinds), np.array(steps, np.int64), placement).tolist()
        return found

    def move_run(self, events: Sequence[InstanceStarted | InstanceStopped], seq: int) -> tuple[Folded, Resources, Undo]:
        """Fold starts and stops of which the first stands at `seq`.

        Return each with the instance that it started or stopped, the highest on-demand load, and the undo.
        """
        kinds: dict[str, int] = {}
        moves: list[tuple[int, ...]] = []
        moved: Folded = []
        for number, event in enumerate(events, seq):
            if isinstance(event, InstanceStarted):
                running = self._started(event, number)
                self._note(running)
                kind, is_spot = kinds.setdefault(event.flavor, len(kinds)), running.market is Market.SPOT
                for row, node in zip(running.rows, running.places, strict=True):
                    moves.append((row, kind, self._nodes.by_name[node].index, _rank_us(running), is_spot, number))
            else:
                running = self._unnote(event.instance_id)
                moves += [(row, STOP, 0, 0, 0, 0) for row in running.rows]
            moved.append((event, running))
        load = np.array(self.on_demand, np.int64)
        peak = load.copy()
        move_run(self._room.cluster, self._demands(kinds), np.array(moves, np.int64), load, peak)
        self.on_demand = Resources(*load.tolist())
        return moved, Resources(*peak.tolist()), lambda: self._move_back(moved)

    def _move_back(self, moved: Folded) -> None:
        for event, running in reversed(moved):
            if isinstance(event, InstanceStarted):
                self._leave(running.instance_id)
            else:
                self._reenter(running)

    def _demands(self, flavors: Collection[str]) -> Ints:
        found = [self._flavors.by_name[flavor].demand for flavor in flavors]
        return np.array(found, np.int64).reshape(len(flavors), len(Resources._fields))

    def exposure(self, probability: float, room: Ints, now_us: int, age_us: int) -> tuple[float, Ints]:
        """Return what engine.exposure computes for the running instances with this promise."""
        cluster, rows, columns = self._room.cluster, self.ages.rows(self._room.cluster), self.rows.columns
        promises, hours, is_by = columns.promises, columns.core_hours, self._charges_core_hours
        charges, taken = exposure(cluster, rows, promises, np.array([probability]), room, now_us, age_us, hours, is_by)
        return float(charges[0]), taken

    @property
    def _charges_core_hours(self) -> bool:
        return self._head.policy.budget is BudgetUnit.CORE_HOURS

    def charges_now(
        self, probabilities: NDArray[np.float64], room: Ints, now_us: int, age_us: int
    ) -> Callable[[], list[float]]:
        """Return a function that returns the charges of these promises as things are now, on any thread."""
        rows = self.ages.rows(self._room.cluster).copy()
        cluster, columns = self._room.copy(), self.rows.columns
        promises, hours, is_by = columns.promises.copy(), columns.core_hours.copy(), self._charges_core_hours

        def charges() -> list[float]:
            of = exposure(cluster, rows, promises, probabilities, room, now_us, age_us, hours, is_by)
            found: list[float] = of[0].tolist()
            return found

        return charges

    def _start(self, event: InstanceStarted) -> Undo:
        self._enter(self._started(event, self._head.seq))
        return lambda: self._forget(event.instance_id)

    def _started(self, event: InstanceStarted, seq: int) -> Running:
        nodes, basis = self._nodes.by_name, event.basis
        assert event.instance_id not in self.running, f"{event.instance_id!r} runs: its undo would lose it"
        return Running(
            event.instance_id,
            seq,
            self._moments[event.at_us],
            event.market,
            self._flavors.by_name[event.flavor].name,
            nodes[event.node].name,
            self._lengths[event.lifetime_us],
            self._shares[event.probability if basis is None else basis.probability],
            self.rows.take(event.market),
            None if basis is None else self._shares[risk_of(event)],
            took_offer=event.wanted is not None,
            owner=self._names[event.owner],
            nodes=tuple(nodes[node].name for node in event.nodes) if event.nodes else (),
            goes_first=event.goes_first,
            more_rows=tuple(self.rows.take(event.market) for _ in event.nodes[1:]) if event.nodes else (),
        )

    def _end(self, event: InstanceStopped | InstanceEvicted) -> Undo:
        running = self._leave(event.instance_id)
        return lambda: self._reenter(running)

    def _extend(self, event: InstanceExtended) -> Undo:
        old = self.running[event.instance_id]
        self._put(_extended(old, event))
        return lambda: self._put(old)

    def _put(self, running: Running) -> None:
        """Let a running instance have another lifetime."""
        self.running[running.instance_id] = running
        self._room.cluster.deadline_us[[*running.rows]] = _rank_us(running)
        self.rows.enter(running)

    def put_moved(self, running: Running) -> None:
        """Let an instance that stands on no node be this one, which may have another flavor."""
        old, flavor = self.running[running.instance_id], self._flavors.by_name[running.flavor]
        self.running[running.instance_id] = running
        if old.flavor != running.flavor:
            self._room.cluster.demand[running.row] = flavor.demand
            self.on_demand = plus(minus(self.on_demand, self._flavors.by_name[old.flavor].resources), flavor.resources)

    def _forget(self, instance_id: str) -> None:
        self._leave(instance_id)

    def _reenter(self, running: Running) -> None:
        # Events are undone in the reverse order, so its rows are those that were freed last.
        if any(self.rows.take(running.market) != row for row in running.rows):
            raise AssertionError("the rows are not undone in order")
        self._enter(running)

    def _enter(self, running: Running) -> None:
        cluster, flavor = self._room.cluster, self._flavors.by_name[running.flavor]
        self._note(running)
        for row, node in zip(running.rows, running.places, strict=True):
            cluster.demand[row] = flavor.demand
            cluster.born[row] = running.seq
            cluster.deadline_us[row] = _rank_us(running)
            cluster.is_spot[row] = running.market is Market.SPOT
            place(cluster, row, self._nodes.by_name[node].index)
        if running.market is Market.ON_DEMAND:
            self.on_demand = plus(self.on_demand, flavor.resources)

    def _leave(self, instance_id: str) -> Running:
        running = self._unnote(instance_id)
        for row in running.rows:
            release(self._room.cluster, row)
        if running.market is Market.ON_DEMAND:
            self.on_demand = minus(self.on_demand, self._flavors.by_name[running.flavor].resources)
        return running

    def _note(self, running: Running) -> None:
        """Enter the instance wherever it stands but in the compiled form."""
        self.running[running.instance_id] = running
        self.rows.enter(running)

    def _unnote(self, instance_id: str) -> Running:
        """Take the instance out again, and free its rows."""
        running = self.running.pop(instance_id)
        self.rows.leave(running)
        return running


def _extended(running: Running, event: InstanceExtended) -> Running:
    """Return the instance with its longer lifetime, and with the risk of the rest of it if there is one."""
    first_us, estimate = running.book_lifetime_us, event.basis.estimated_probability
    longer = replace(running, lifetime_us=event.lifetime_us, first_lifetime_us=first_us)
    if running.risk is None or estimate is None or event.total_risk is None:
        return longer
    left_us = event.deadline_us - event.at_us
    return replace(longer, risk=estimate * max(first_us, 1) / left_us, total_risk=event.total_risk)


def _rank_us(running: Running) -> int:
    """Return the deadline in the compiled form, by which victims are chosen."""
    return GOES_FIRST_US if running.goes_first else running.deadline_us


def _keep(_event: ExtensionRejected) -> None:
    """Change nothing: a refusal leaves everything as it was."""
