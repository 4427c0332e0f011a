"""The state of a cloud: the fold of its event log, in parts that each fold the kinds of events that concern them.

`apply` is the only way to change it. `rollback` undoes everything applied since the last `commit`, so a batch that
could not be made durable leaves no trace. Two folds of one log are equal bit for bit: see `digest`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import groupby, islice
from operator import gt

import numpy as np

from app.domain.budgets import BudgetUnit
from app.domain.events import Event, InstanceStarted, InstanceStopped, Recorded
from app.domain.requests import Operation
from app.domain.values import Clock, EvictionPolicy, Market, Placement, Policy, Resources
from app.engine.cloud.books import Books
from app.engine.cloud.digests import digest_of
from app.engine.cloud.head import Head
from app.engine.cloud.instances import Instances
from app.engine.cloud.jobs import Jobs
from app.engine.cloud.moves import Moves
from app.engine.cloud.nodes import Flavors, Nodes
from app.engine.cloud.outcomes import SectionCounts
from app.engine.cloud.outlooks import Outlooks
from app.engine.cloud.owners import Owners
from app.engine.cloud.readings import Readings
from app.engine.cloud.records import (
    Counts,
    Facts,
    Handover,
    Part,
    Room,
    folds_of,
    in_order,
    is_of_run,
)
from app.engine.cloud.tally import Tally
from app.engine.cloud.told import Handovers, Risks
from app.engine.cloud.undoing import Undoing
from app.engine.cloud.wants import Wants
from app.engine.cluster import (
    BEST_FIT,
    FIRST_FIT,
    NO_NODE,
    YJF,
    YJF_GLOBAL,
    Cluster,
    Ints,
    available_slots,
    fitting_node,
    slots_of_each,
)
from app.engine.exposure import share
from app.engine.standing import reach

PLACEMENT_CODE = {Placement.FIRST_FIT: FIRST_FIT, Placement.BEST_FIT: BEST_FIT}
POLICY_CODE = {EvictionPolicy.YJF: YJF, EvictionPolicy.YJF_GLOBAL: YJF_GLOBAL}

LEAST_RUN = 4
"""A run of fewer events is folded one by one, because that is quicker."""
LONGEST_RUN = 256
"""The number of steps that are decided or folded together at most: other tasks get their turns, and the collector of
garbage has little to look through.
"""


class Cloud:
    """The folded state of one cloud. It changes only through `apply`, `commit` and `rollback`."""

    def __init__(self) -> None:
        self._room, self._head = Room(), Head()
        self._nodes, self._flavors = Nodes(self._room), Flavors()
        self._instances = Instances(self._room, self._head, self._nodes, self._flavors)
        self._tally = Tally(self._instances, self._flavors)
        self._handovers, self._risks = Handovers(self._instances, self._flavors), Risks(self._instances)
        self._books = Books(self._instances, self._head, self._flavors)
        moves = Moves(self._room, self._instances, self._nodes, self._flavors, self._handovers)
        owners = self._owners = Owners(self._room, self._instances, self._nodes, self._flavors)
        self._wants, self.jobs = Wants(self._head), Jobs()
        self._outcomes = SectionCounts(self._instances, self._flavors)
        # Books come first and instances last: other parts read what was in force and what ran before the event.
        self._parts: tuple[Part, ...] = (
            self._books,
            self._outcomes,
            self._head,
            self._nodes,
            self._flavors,
            self._tally,
            self._handovers,
            self._risks,
            self._owners,
            self._wants,
            moves,
            self.jobs,
            self._instances,
        )
        self._folds, self._undo = folds_of(self._parts), Undoing()
        self.nodes, self.flavors = self._nodes.by_name, self._flavors.by_name
        self.outcomes_now, self.core_hours_of = self._outcomes.now, self._outcomes.core_hours_of
        self.books_now, self.left_in = self._books.now, self._books.left_in
        self.running, self.classes, self.at_risk = self._instances.running, self._tally.classes, self._instances.at_risk
        self.first_at_risk, self.on_node = self._instances.first_at_risk, self._instances.on_node
        self.youngest_spot, self.oldest = self._instances.youngest_spot, self._instances.oldest
        self.promises_within, self.use_by_node = self._instances.promises_within, self._instances.use_by_node
        self._reach(owners, moves)
        self._keep_readings(owners)

    def _keep_readings(self, owners: Owners) -> None:
        """Show what is read once within the block `still`."""
        readings, outlooks = Readings(), Outlooks(self._room, self._instances, self._flavors, self._tally)
        self.still, self.without = readings.still, readings.apart(owners.without)
        self.outlook, self.seen_by = readings.once(outlooks.of_start), readings.once(outlooks.seen_by)
        self.outlooks_now, self.displacing_now = outlooks.now, outlooks.displacing
        self.available_slots = readings.once(self._available_slots)
        self.books, self.borne_by = readings.once(self._books.of), readings.once(owners.borne_by)
        self.overrun_lately = readings.once(owners.overrun_lately)
        self.overrunning_cores = readings.once(owners.overrunning_cores)

    def _reach(self, owners: Owners, moves: Moves) -> None:
        self.owners, self.quotas = owners.accounts, owners.quotas
        self.ended_lately, self.ended_now = owners.ended_lately, owners.ended_now
        self.displace = owners.displace
        self.overrunning_now, self.proposals_now = owners.overrunning_now, moves.proposals_now
        self.wants, self.told, self.looks_due = self._wants.by_id, self._wants.told, self._wants.due
        self.fits_on, self.nodes_in_order, self.free = moves.fits_on, self._nodes.in_order, self._nodes.free
        self.only_on, self.clear = self._nodes.only, moves.clear
        self.running_counts, self.known_handovers = self._instances.counts, self._handovers.by_deadline
        self.handovers_of = self._handovers.count_of

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The position of the last event; 0 if the log is empty."""
        return self._head.seq

    @property
    def last(self) -> Event | None:
        """The event at `seq`; None after loading a snapshot, which stores only its time."""
        return self._head.last

    @property
    def at_us(self) -> int:
        """The last event's time."""
        return self._head.at_us

    @property
    def created_us(self) -> int:
        """The first event's time."""
        return self._head.created_us

    @property
    def policy(self) -> Policy:
        """The policy in force."""
        return self._head.policy

    @property
    def counts_core_hours(self) -> bool:
        """True if budgets and books count core-hours, and not instances."""
        return self.policy.budget is BudgetUnit.CORE_HOURS

    @property
    def owner_names(self) -> list[str]:
        """Everybody who has an account or a quota, in order."""
        return self._owners.names

    @property
    def counts(self) -> Counts:
        """Counts of requests and their outcomes."""
        return self._tally.counts

    @property
    def on_demand_peak(self) -> Resources:
        """The highest simultaneous use by on-demand instances so far, for each resource."""
        return self._tally.on_demand_peak

    @property
    def on_demand_load(self) -> Resources:
        """The present use by on-demand instances, for each resource."""
        return self._instances.on_demand

    @property
    def handovers(self) -> dict[str, Handover]:
        """Evictions that no controller has confirmed, by instance id."""
        return self._handovers.by_id

    @property
    def cluster(self) -> Cluster:
        """The compiled form of the placements."""
        return self._room.cluster

    @property
    def machine_count(self) -> int:
        """The number of running machines: single instances, and the members of groups."""
        return self._instances.machine_count

    def present_us(self, server_us: int) -> int:
        """Return the cloud's present time: the last event's if its clock is external or ahead of the server's."""
        return self.at_us if self.policy.clock is Clock.EXTERNAL else max(server_us, self.at_us)

    def fitting_node(self, flavor: str) -> str | None:
        """Return the node with room that a start of this flavor would take, or None."""
        node = fitting_node(self.cluster, self.flavors[flavor].demand, PLACEMENT_CODE[self.policy.placement])
        return None if node == NO_NODE else self._nodes.names[node]

    def fitting_nodes(self, flavor: str, count: int) -> tuple[str, ...]:
        """Return the nodes that the members of a group of this flavor would take, none if they do not all fit."""
        code = PLACEMENT_CODE[self.policy.placement]
        nodes = self._instances.fitting_nodes(self.flavors[flavor].demand, count, code)
        return tuple(self._nodes.names[node] for node in nodes)

    def _available_slots(self, flavor: str) -> int:
        """Return the number of instances of this flavor that fit now."""
        return int(available_slots(self.cluster, self.flavors[flavor].demand))

    def slots_now(self, flavors: Sequence[str]) -> Callable[[], list[int]]:
        """Return a function that counts the available slots of these flavors as they are now, on any thread.

        It takes some tens of milliseconds if flavors and nodes are many.
        """
        cluster = self.cluster._replace(free=self.cluster.free.copy(), is_open=self.cluster.is_open.copy())
        demands = np.array([self.flavors[flavor].resources for flavor in flavors], np.int64)
        return lambda: slots_of_each(cluster, demands).tolist() if flavors else []

    def place_on_demand(self, flavor: str, now_us: int) -> tuple[str | None, tuple[str, ...]]:
        """Return the node for an on-demand start and its victims, youngest first; (None, ()) if there is no node."""
        policy = self.policy
        node, victims = self._instances.plan(
            self.flavors[flavor].demand,
            now_us,
            PLACEMENT_CODE[policy.placement],
            POLICY_CODE[policy.eviction_policy],
        )
        return (None, ()) if node == NO_NODE else (self._nodes.names[node], victims)

    def place_run(self, run: Sequence[Operation]) -> list[str]:
        """Return the nodes of on-demand starts of new instances, and of stops of running ones, decided in this order.

        The list ends before the first start that fits nowhere.
        """
        nodes = self._instances.plan_run(run, PLACEMENT_CODE[self.policy.placement])
        return [self._nodes.names[node] for node in nodes]

    def exposure(self, flavor: str, probability: float, now_us: int, count: int = 1) -> tuple[float, float]:
        """Return the charges of a class's running instances, and the share of the room that a start would reach.

        `count`: the machines of the start. The room is what the highest on-demand load so far would leave of the open
        nodes; see engine.exposure.
        """
        charges, taken = self._exposure(probability, now_us)
        return charges, share(taken + count * self.flavors[flavor].demand, self._room_at_peak())

    def charges(self, probability: float, now_us: int) -> float:
        """Return the charges of a class's running instances."""
        return self._exposure(probability, now_us)[0]

    def charges_now(self, probabilities: Sequence[float], now_us: int) -> Callable[[], list[float]]:
        """Return a function that returns the charges of each class, rising, as things are now, on any thread."""
        room, age_us = self._room_at_peak(), now_us - self.created_us
        return self._instances.charges_now(np.array(probabilities), room, now_us, age_us)

    def _exposure(self, probability: float, now_us: int) -> tuple[float, Ints]:
        return self._instances.exposure(probability, self._room_at_peak(), now_us, now_us - self.created_us)

    def reach(self, instance_id: str, now_us: int) -> float:
        """Return the share of the room at which a running spot instance stands within its lifetime; see `exposure`."""
        rows = self._instances.ages.rows(self.cluster)
        return reach(self.cluster, rows, self._room_at_peak(), self.running[instance_id].row, now_us)

    def _room_at_peak(self) -> Ints:
        capacity = self._nodes.open_capacity()
        return np.array([size - peak for size, peak in zip(capacity, self.on_demand_peak, strict=True)])

    def ready_us(
        self, places: Sequence[str], flavor: str, evicted: Iterable[str], deadline_us: int, now_us: int
    ) -> int | None:
        """Return when the room of machines of a flavor, placed on these nodes now, is free; None: at once.

        See `Handovers.ready_us`.
        """
        return self._handovers.ready_us(places, flavor, self._room_on, (deadline_us, evicted), now_us)

    def _room_on(self, node: str) -> Resources:
        return Resources(*self.cluster.free[self.nodes[node].index].tolist())

    # --- as facts ----------------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Return the whole state as values, including events applied but not committed."""
        return in_order(self._facts())

    def facts_now(self) -> Callable[[], tuple[Facts, str]]:
        """Return a function that returns the facts and the digest of the state as it is now, on any thread.

        It takes a second if instances are very many.
        """
        found, free = self._facts(), [self.free(node.name) for node in self.nodes_in_order()]

        def finish() -> tuple[Facts, str]:
            facts = in_order(found)
            return facts, digest_of(facts, free)

        return finish

    def _facts(self) -> Facts:
        return Facts(**{name: fact for part in self._parts for name, fact in part.facts().items()})

    @classmethod
    def of_facts(cls, facts: Facts) -> Cloud:
        """Return the state made of these facts."""
        cloud = cls()
        for part in cloud._parts:
            part.restore(facts)
        return cloud

    def digest(self) -> str:
        """Return a hash of everything that later decisions could depend on."""
        return self.facts_now()()[1]

    # --- changing ----------------------------------------------------------------------------------------------------

    def apply(self, event: Event) -> Recorded:
        """Fold the next event into the state and number it."""
        if event.at_us < self._head.at_us:
            raise AssertionError(f"time runs backwards: {event} after {self._head.at_us}")
        if event.at_us >= self._owners.forgets_us:
            self._undo.append(self._owners.forget(event.at_us))
        self._undo.append(self._head.advance(event))
        for fold in self._folds[type(event)]:
            undo = fold(event)
            if undo is not None:
                self._undo.append(undo)
        return Recorded(self._head.seq, event)

    def apply_run(self, run: Sequence[InstanceStarted | InstanceStopped]) -> list[Recorded]:
        """Fold the next events like `apply`, in a fraction of the time where they are many."""
        first = self.seq + 1
        self._fold_run(run)
        return [Recorded(seq, event) for seq, event in enumerate(run, first)]

    def _fold_run(self, run: Sequence[InstanceStarted | InstanceStopped]) -> None:
        times = [self.at_us, *(event.at_us for event in run)]
        if any(map(gt, times, times[1:])):
            raise AssertionError(f"time runs backwards within {len(run)} events after {self.at_us}")
        while times[-1] >= self._owners.forgets_us:
            before = bisect_left(times, self._owners.forgets_us) - 1  # of the run, in the week of the event before it
            self._fold_within_week(run[:before])
            self._undo.append(self._owners.forget(times[before + 1]))
            run, times = run[before:], times[before:]
        self._fold_within_week(run)

    def _fold_within_week(self, run: Sequence[InstanceStarted | InstanceStopped]) -> None:
        if not run:
            return
        moved, peak, undo = self._instances.move_run(run, self.seq + 1)
        self._undo += [undo, self._tally.enter(moved, peak)]
        spot = [one for one in moved if one[1].market is Market.SPOT]
        concerned = (self._books, self._outcomes, self._owners, self._wants, self._risks) if spot else ()
        for part, of_part in (*((part, spot) for part in concerned), *self.jobs.concerned_by(moved)):
            back = part.enter(of_part)
            if back is not None:
                self._undo.append(back)
        self._undo.append(self._head.advance_over(run))

    def apply_recorded(self, recorded: Iterable[Recorded]) -> None:
        """Fold the log's next events. They are durable already, so they cannot be rolled back."""
        for is_run, items in groupby(recorded, lambda item: is_of_run(item.event)):
            while run := [*islice(items, LONGEST_RUN)]:
                for at, item in enumerate(run, self.seq + 1):
                    if item.seq != at:
                        raise AssertionError(f"event {item.seq} cannot follow {at - 1}")
                if is_run and len(run) >= LEAST_RUN:
                    self._fold_run([item.event for item in run])  # type: ignore[misc] # of these two kinds
                else:
                    for item in run:
                        self.apply(item.event)
                self.commit()

    def commit(self) -> None:
        """Keep the events applied so far."""
        self._undo.clear()
        self._nodes.give_up_places()

    def tried(self) -> AbstractContextManager[None]:
        """Undo on leaving what was applied since entering: what a decision tries leaves no trace."""
        return self._undo.tried()

    def rollback(self) -> None:
        """Undo the events applied since the last commit, newest first."""
        self._undo.back_to(0)
        self._wants.forget_looks()
