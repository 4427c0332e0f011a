"""The part of a cloud's state that holds the running instances, their nodes and their rows in the compiled form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.events import ExtensionRejected, InstanceEvicted, InstanceExtended, InstanceStarted, InstanceStopped
from app.domain.requests import Operation, StartRequest
from app.domain.values import Market, Resources
from app.engine.ages import SpotAges
from app.engine.cloud.bearers import BearerColumns
from app.engine.cloud.head import Head
from app.engine.cloud.nodes import Flavors, Nodes, minus, plus
from app.engine.cloud.overrunning import SectionColumns
from app.engine.cloud.owner_rows import OwnerRows
from app.engine.cloud.records import FIRST_ROWS, Alike, Facts, Fold, Room, Running, Section, Undo, risk_of
from app.engine.cluster import (
    NEVER_US,
    NO_NODE,
    STOP,
    Bools,
    Cluster,
    Ints,
    empty_cluster,
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
        self._rows: list[str | None] = [None] * FIRST_ROWS
        self._free_rows = list(range(FIRST_ROWS - 1, -1, -1))
        self.ages = SpotAges()
        self._victims = np.empty(FIRST_ROWS, np.int64)
        self._are_at_risk, self._are_first, self._count_there = np.zeros((3, FIRST_ROWS), np.bool_)
        self._promises = np.zeros(FIRST_ROWS)
        self.bearers, self._sections, self.owner_rows = BearerColumns(), SectionColumns(), OwnerRows()

    @property
    def machine_count(self) -> int:
        """The number of running machines: single instances, and the members of groups."""
        return len(self._rows) - len(self._free_rows)

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
            row, *more = (self._take_row() for _ in range(running.count))
            self._enter(self._sharing(replace(running, row=row, more_rows=tuple(more))))

    def _sharing(self, one: Running) -> Running:
        """Return the instance with values that it shares with others."""
        return replace(
            one,
            started_us=self._moments.of(one.started_us),
            flavor=self._flavors.by_name[one.flavor].name,
            node=self._nodes.by_name[one.node].name,
            lifetime_us=self._lengths.of(one.lifetime_us),
            probability=self._shares.of(one.probability),
            risk=self._shares.of(one.risk),
            owner=self._names.of(one.owner),
            nodes=tuple(self._nodes.by_name[node].name for node in one.nodes),
        )

    def on_node(self, node: str) -> list[Running]:
        """Return the instances of which a machine runs on the node, oldest first."""
        rows = np.flatnonzero(self._room.cluster.node_of == self._nodes.by_name[node].index).tolist()
        return sorted((self.running[name] for name in self.at(rows)), key=lambda running: running.seq)

    def youngest_spot(self) -> Running | None:
        """Return the spot instance started last, or None if none runs."""
        rows = np.flatnonzero(self._are_spot())
        if not len(rows):
            return None
        (name,) = self.at([int(rows[np.argmax(self._room.cluster.born[rows])])])
        return self.running[name]

    def put_at_risk(self, instance_id: str, *, at_risk: bool) -> None:
        """Enter an instance among those at risk, or take it out."""
        (self.at_risk.add if at_risk else self.at_risk.discard)(instance_id)
        if (running := self.running.get(instance_id)) is not None:
            self._are_at_risk[running.row] = at_risk

    def first_at_risk(self, count: int, now_us: int) -> list[Running]:
        """Return the instances at risk that would be evicted first: overrunning ones, then the youngest."""
        cluster, rows = self._room.cluster, np.flatnonzero(self._are_at_risk)
        rank = cluster.born[rows] + NEVER_US * (now_us > cluster.deadline_us[rows])
        if len(rows) > count:
            rows, rank = (every[np.argpartition(rank, -count)[-count:]] for every in (rows, rank))
        return [self.running[name] for name in self.at(rows[np.argsort(-rank)].tolist())]

    def oldest(self, after_seq: int, count: int, market: Market | None) -> tuple[str, ...]:
        """Return the ids of the first `count` instances that started after a seq, of one market or of both (None)."""
        cluster = self._room.cluster
        asked = self._are_first & (cluster.born > after_seq)
        if market is not None:
            asked &= cluster.is_spot == (market is Market.SPOT)
        rows = np.flatnonzero(asked)
        if len(rows) > count:
            rows = rows[np.argpartition(cluster.born[rows], count)[:count]]
        return self.at(rows[np.argsort(cluster.born[rows])].tolist())

    def promises_within(self, now_us: int) -> dict[float, int]:
        """Return the number of running spot instances within their lifetime, by promised probability; 0: none."""
        within = self._are_first & self._are_spot() & (now_us < self._room.cluster.deadline_us)
        promised, counts = np.unique(self._promises[within], return_counts=True)
        return dict(zip(promised.tolist(), counts.tolist(), strict=True))

    def overrunning_now(self, now_us: int) -> Callable[[], dict[Section, int]]:
        """Return a function that counts the promised instances that overrun, by section, on any thread."""
        overrun = self._are_first & self._are_spot() & (self._room.cluster.deadline_us < now_us)
        return self._sections.counts(overrun, self._promises)

    def use_by_node(self) -> tuple[Ints, Ints]:
        """Return the cores in use and the counts of instances (N, 2), by node and market: on-demand, spot.

        A group counts once on each node of its members.
        """
        cluster, shape = self._room.cluster, (len(self._room.cluster.free), 2)
        rows = np.flatnonzero(cluster.node_of != NO_NODE)
        at = cluster.node_of[rows], cluster.is_spot[rows].astype(np.int64)
        cores, counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
        np.add.at(cores, at, cluster.demand[rows, Resources._fields.index("cores")])
        np.add.at(counts, at, self._count_there[rows].astype(np.int64))
        return cores, counts

    def counts(self) -> tuple[int, int]:
        """Return how many instances run, by market: on-demand, spot. A group counts once."""
        spot = int(np.count_nonzero(self._are_first & self._room.cluster.is_spot))
        return len(self.running) - spot, spot

    def _are_spot(self) -> Bools:
        found: Bools = self._room.cluster.is_spot & (self._room.cluster.node_of != NO_NODE)
        return found

    def plan(self, demand: Ints, now_us: int, placement: int, code: int) -> tuple[int, tuple[str, ...]]:
        """Return the index of the node for an on-demand start, and its victims, youngest first."""
        node, count = place_on_demand(self._room.cluster, demand, now_us, placement, code, self._victims)
        return node, self.at(self._victims[:count].tolist())

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

    def move_run(self, events: Sequence[InstanceStarted | InstanceStopped], seq: int) -> tuple[Undo, Resources]:
        """Fold starts and stops of which the first stands at `seq`. Return the undo, and the highest on-demand load."""
        kinds: dict[str, int] = {}
        moves: list[tuple[int, ...]] = []
        moved: list[tuple[bool, Running]] = []
        for number, event in enumerate(events, seq):
            if isinstance(event, InstanceStarted):
                running = self._started(event, number)
                self._note(running)
                kind, is_spot = kinds.setdefault(event.flavor, len(kinds)), running.market is Market.SPOT
                for row, node in zip(running.rows, running.places, strict=True):
                    moves.append((row, kind, self._nodes.by_name[node].index, running.deadline_us, is_spot, number))
                moved.append((True, running))
            else:
                running = self._unnote(event.instance_id)
                moves += [(row, STOP, 0, 0, 0, 0) for row in running.rows]
                moved.append((False, running))
        load = np.array(self.on_demand, np.int64)
        peak = load.copy()
        move_run(self._room.cluster, self._demands(kinds), np.array(moves, np.int64), load, peak)
        self.on_demand = Resources(*load.tolist())
        return lambda: self._move_back(moved), Resources(*peak.tolist())

    def _move_back(self, moved: Iterable[tuple[bool, Running]]) -> None:
        for is_start, running in reversed([*moved]):
            if is_start:
                self._leave(running.instance_id)
            else:
                self._reenter(running)

    def _demands(self, flavors: Collection[str]) -> Ints:
        found = [self._flavors.by_name[flavor].demand for flavor in flavors]
        return np.array(found, np.int64).reshape(len(flavors), len(Resources._fields))

    def exposure(self, probability: float, room: Ints, now_us: int, age_us: int) -> tuple[float, Ints]:
        """Return what engine.exposure computes for the running instances with this promise."""
        cluster, rows = self._room.cluster, self.ages.rows(self._room.cluster)
        charges, taken = exposure(cluster, rows, self._promises, np.array([probability]), room, now_us, age_us)
        return float(charges[0]), taken

    def charges_now(
        self, probabilities: NDArray[np.float64], room: Ints, now_us: int, age_us: int
    ) -> Callable[[], list[float]]:
        """Return a function that returns the charges of these promises as things are now, on any thread."""
        rows = self.ages.rows(self._room.cluster).copy()
        cluster, promises = self._room.copy(), self._promises.copy()

        def charges() -> list[float]:
            found: list[float] = exposure(cluster, rows, promises, probabilities, room, now_us, age_us)[0].tolist()
            return found

        return charges

    def borne(
        self, probabilities: NDArray[np.float64], boundaries_us: tuple[int, ...], now_us: int
    ) -> tuple[Ints, Ints]:
        """Return what engine.books computes for the running instances with these promises."""
        return self.bearers.borne(self._room.cluster.deadline_us, probabilities, boundaries_us, now_us)

    def borne_now(
        self, probabilities: NDArray[np.float64], boundaries_us: tuple[int, ...], now_us: int
    ) -> Callable[[], tuple[Ints, Ints]]:
        """Return a function that returns the same as things are now, on any thread."""
        return self.bearers.borne_now(self._room.cluster.deadline_us, probabilities, boundaries_us, now_us)

    def at(self, rows: Iterable[int]) -> tuple[str, ...]:
        """Return the ids of the instances in these rows, each once."""
        return tuple(dict.fromkeys(name for row in rows if (name := self._rows[row]) is not None))

    def _start(self, event: InstanceStarted) -> Undo:
        self._enter(self._started(event, self._head.seq))
        return lambda: self._forget(event.instance_id)

    def _started(self, event: InstanceStarted, seq: int) -> Running:
        row, *more = (self._take_row() for _ in event.places)
        return Running(
            event.instance_id,
            seq,
            self._moments.of(event.at_us),
            event.market,
            self._flavors.by_name[event.flavor].name,
            self._nodes.by_name[event.node].name,
            self._lengths.of(event.lifetime_us),
            self._shares.of(event.probability if event.basis is None else event.basis.probability),
            row,
            self._shares.of(risk_of(event)),
            took_offer=event.wanted is not None,
            owner=self._names.of(event.owner),
            nodes=tuple(self._nodes.by_name[node].name for node in event.nodes),
            more_rows=tuple(more),
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
        self._room.cluster.deadline_us[[*running.rows]] = running.deadline_us
        self.bearers.enter(running)
        self._sections.enter(running)

    def _forget(self, instance_id: str) -> None:
        self._leave(instance_id)

    def _reenter(self, running: Running) -> None:
        # Events are undone in the reverse order, so its rows are those that were freed last.
        if any(self._free_rows.pop() != row for row in running.rows):
            raise AssertionError("the rows are not undone in order")
        self._enter(running)

    def _enter(self, running: Running) -> None:
        cluster, flavor = self._room.cluster, self._flavors.by_name[running.flavor]
        self._note(running)
        for row, node in zip(running.rows, running.places, strict=True):
            cluster.demand[row] = flavor.demand
            cluster.born[row] = running.seq
            cluster.deadline_us[row] = running.deadline_us
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
        before: set[str] = set()
        for row, node in zip(running.rows, running.places, strict=True):
            self._rows[row] = running.instance_id
            self._are_first[row] = row == running.row
            self._count_there[row] = node not in before
            before.add(node)
            self._promises[row] = running.probability or 0.0
        self.running[running.instance_id] = running
        self._are_at_risk[running.row] = running.instance_id in self.at_risk
        self.bearers.enter(running)
        self.owner_rows.enter(running)
        self._sections.enter(running)

    def _unnote(self, instance_id: str) -> Running:
        """Take the instance out again, and free its rows."""
        running = self.running.pop(instance_id)
        self._are_at_risk[running.row] = self._are_first[running.row] = False
        self.bearers.leave(running.row)
        for row in reversed(running.rows):
            self._rows[row] = None
            self._free_rows.append(row)
        return running

    def _take_row(self) -> int:
        if not self._free_rows:
            self._grow()
        return self._free_rows.pop()

    def _grow(self) -> None:
        count, cluster = len(self._rows), self._room.cluster
        more = empty_cluster(0, count, len(Resources._fields))
        grown = [np.concatenate([old, new]) for old, new in zip(cluster[2:], more[2:], strict=True)]
        self._room.cluster = Cluster(cluster.free, cluster.is_open, *grown)
        self._are_at_risk = np.append(self._are_at_risk, np.zeros(count, np.bool_))
        self._are_first = np.append(self._are_first, np.zeros(count, np.bool_))
        self._count_there = np.append(self._count_there, np.zeros(count, np.bool_))
        self._promises = np.concatenate([self._promises, np.zeros(count)])
        self.bearers.grow()
        self.owner_rows.grow()
        self._sections.grow()
        self._rows += [None] * count
        self._free_rows += range(2 * count - 1, count - 1, -1)
        self._victims = np.empty(2 * count, np.int64)


def _extended(running: Running, event: InstanceExtended) -> Running:
    """Return the instance with its longer lifetime, and with the risk of the rest of it if there is one."""
    first_us, estimate = running.book_lifetime_us, event.basis.estimated_probability
    longer = replace(running, lifetime_us=event.lifetime_us, first_lifetime_us=first_us)
    if running.risk is None or estimate is None or event.total_risk is None:
        return longer
    left_us = event.deadline_us - event.at_us
    return replace(longer, risk=estimate * max(first_us, 1) / left_us, total_risk=event.total_risk)


def _keep(_event: ExtensionRejected) -> None:
    """Change nothing: a refusal leaves everything as it was."""
