"""The plain values of a cloud's state, and the interface of its parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from app.domain.events import Event, InstanceStarted, InstanceStopped
from app.domain.quick import quick
from app.domain.values import EvictionReason, Market, NodeStatus, Policy, Resources
from app.engine.cloud.jobrecords import HostedRecord, JobRecord
from app.engine.cloud.looks import Want
from app.engine.cluster import NEVER_US, NO_NODE, Cluster, Ints, empty_cluster
from app.engine.jobs.standings import PeerTally

T = TypeVar("T")

FIRST_ROWS = 64
_MOST_ALIKE = 4096
NOBODY = ""
"""Stands for the owner of instances whose start records none."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node. `index` is its place in the compiled form: greater for nodes that were added later."""

    index: int
    name: str
    capacity: Resources
    status: NodeStatus


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor. `demand` is the compiled form (R) of `resources`."""

    name: str
    resources: Resources
    demand: np.ndarray = field(compare=False, repr=False)


@quick()
class Running:
    """A running instance. `seq`, the position of its start in the log, orders instances by age.

    `lifetime_us`: declared at the start, or promised since by an extension. Of a group, `nodes` are those of its
    members, and `node` is the first of them; else `nodes` is empty. `more_rows` are those of the members but the first.
    """

    instance_id: str
    seq: int
    started_us: int
    market: Market
    flavor: str
    node: str
    lifetime_us: int | None
    probability: float | None
    row: int = field(compare=False, repr=False)
    risk: float | None = None
    """The eviction probability that was estimated at the start; None if nothing was promised. Of an extended one, that
    of the rest, as if it were left over of the first lifetime in the same proportion.
    """
    first_lifetime_us: int | None = None
    """The lifetime declared at the start, if it was extended since. The instance stands in the book of its stratum."""
    total_risk: float | None = None
    """The risk of the whole extended lifetime, borne and to be borne; None if it was not extended."""
    took_offer: bool = False
    """True if its start took the lifetime that could be promised. If it stops early, its book takes back what the start
    earned for risk that was not borne, whatever the policy says: it may have been promised far more than it needed.
    """
    owner: str | None = None
    """The asker of the start; None: an admin, or a log of an earlier format."""
    nodes: tuple[str, ...] = ()
    goes_first: bool = False
    """True for room that was promised nothing and is evicted before all others, whatever its age."""
    more_rows: tuple[int, ...] = field(default=(), compare=False, repr=False)

    @property
    def count(self) -> int:
        """The number of machines: the members of a group, else 1."""
        return len(self.nodes) or 1

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each machine."""
        return self.nodes or (self.node,)

    @property
    def rows(self) -> tuple[int, ...]:
        """The row of each machine in the compiled form."""
        return (self.row, *self.more_rows)

    @property
    def deadline_us(self) -> int:
        """The time when the instance starts to overrun; on-demand instances never do."""
        if self.market is Market.ON_DEMAND or self.lifetime_us is None:
            return NEVER_US
        return self.started_us + self.lifetime_us

    @property
    def book_lifetime_us(self) -> int:
        """The lifetime whose stratum the instance stands in."""
        return (self.lifetime_us if self.first_lifetime_us is None else self.first_lifetime_us) or 0

    @property
    def whole_risk(self) -> float | None:
        """The risk of the whole lifetime, borne and to be borne."""
        return self.risk if self.total_risk is None else self.total_risk

    def unused(self, now_us: int) -> float:
        """Return the part of its lifetime that is left to a spot instance."""
        return max(self.deadline_us - now_us, 0) / max(self.lifetime_us or 0, 1)

    def borne(self, now_us: int) -> float:
        """Return the risk that the instance has borne by now. It bears an estimate in equal parts over its time."""
        if self.risk is None or self.whole_risk is None:
            return 0.0
        left_us = max(self.deadline_us - now_us, 0)
        return max(self.whole_risk - self.risk * left_us / max(self.book_lifetime_us, 1), 0.0)


@dataclass(frozen=True, slots=True)
class Handover:
    """An eviction under a grace period that no controller has confirmed. Its room is booked but may still be in use."""

    instance_id: str
    node: str
    flavor: str
    reason: EvictionReason
    cause_seq: int
    scheduled_us: int
    deadline_us: int
    is_overdue: bool = False
    nodes: tuple[str, ...] = ()
    """Of a group, the nodes of its members."""
    owner: str | None = None
    """The asker of the start that evicted it; None: an admin, or it was evicted by something else than a start."""


class Counts(NamedTuple):
    """Counts of requests and their outcomes since the log began. Evictions by drills are not counted as evicted."""

    on_demand_requested: int = 0
    on_demand_admitted: int = 0
    spot_requested: int = 0
    spot_admitted: int = 0
    spot_evicted: int = 0
    spot_drilled: int = 0


class ClassCounts(NamedTuple):
    """Counts for the instances promised one eviction probability. Overrunning ones have no promise left."""

    admitted: int = 0
    evicted: int = 0


class SectionKind(StrEnum):
    """The ways in which instances are taken together, where outcomes are counted."""

    STRATUM = "stratum"
    FLAVOR = "flavor"
    WEEK = "week"


class Section(NamedTuple):
    """Instances that are judged together: a stratum of one promise, a flavor, or the starts of a week.

    `number`: the position of the stratum, or the week's number; `promised`: that of a stratum's class.
    """

    kind: SectionKind
    name: str
    number: int = 0
    promised: float = 0.0


class OutcomeCounts(NamedTuple):
    """Counts for the instances of a section, all of which were promised something.

    `promised`: the sum of their probabilities; `evicted`: within the declared lifetime, drills not counted; `overran`:
    those that ran on after it; `overrun_evicted`: those evicted then. Core-microseconds are declared ones: of all, and
    of those evicted within their lifetime.
    """

    admitted: int = 0
    evicted: int = 0
    promised: float = 0.0
    core_us: int = 0
    lost_core_us: int = 0
    overran: int = 0
    overrun_evicted: int = 0


class BookAccount(NamedTuple):
    """The account of a stratum of one promise: what its starts have earned, and how many were evicted in time.

    If it counts core-hours, `earned` is in these, and it has the others too: the number of starts that were entered,
    the core-hours that they declare, and those evicted. Else they are 0. A start that stopped early counts in the first
    two for the part of its lifetime that it ran, if it gave back what it earned for the rest.
    """

    earned: float = 0.0
    evicted: int = 0
    entered: float = 0.0
    core_hours: float = 0.0
    evicted_core_hours: float = 0.0


class OwnerAccount(NamedTuple):
    """The sum of the spot instances of one owner: those that run now, and all since the log began or it was forgotten.

    `evicted`: within the declared lifetime; `overran`: that ended after it, `overrun_core_us` the core-microseconds
    that these ran beyond it, and `overrun_evicted` how many of these ends were evictions. Drills are no evictions.
    """

    running: int = 0
    cores: int = 0
    admitted: int = 0
    evicted: int = 0
    overran: int = 0
    overrun_core_us: int = 0
    overrun_evicted: int = 0


class OwnerWeek(NamedTuple):
    """The core-microseconds of one owner's spot instances that ended in a week, by the week's number.

    `core_us`: those that they ran within their declared lifetimes; `overrun_core_us`: those beyond.
    """

    week: int
    core_us: int = 0
    overrun_core_us: int = 0


class Quota(NamedTuple):
    """The most that an owner may have, each None for no limit: running spot cores, the share of what a book has left,
    and what its instances may overrun for each core-hour within a declared lifetime.
    """

    cores: int | None = None
    share: float | None = None
    overrun_share: float | None = None


class Facts(NamedTuple):
    """The whole state as values that can be compared, hashed and stored.

    `nodes` stand in node order, with places counted without gaps, and `running` by age. Running instances and jobs are
    not in memory as a whole while they are loaded.
    """

    seq: int
    at_us: int
    created_us: int
    policy: Policy
    counts: Counts
    classes: list[tuple[float, ClassCounts]]
    on_demand_peak: Resources
    nodes: list[Node]
    flavors: list[tuple[str, Resources]]
    running: Iterable[Running]
    handovers: list[Handover]
    at_risk: list[str]
    books: list[tuple[float, int, BookAccount]]
    wants: list[Want]
    outcomes: list[tuple[Section, OutcomeCounts]]
    owners: list[tuple[str, OwnerAccount]]
    quotas: list[tuple[str, Quota]]
    owner_weeks: list[tuple[str, tuple[OwnerWeek, ...]]]
    jobs: Iterable[JobRecord]
    hosted: list[HostedRecord]
    foreign: list[tuple[str, str, str, int]]
    standings: list[PeerTally]


def in_order(facts: Facts) -> Facts:
    """Return the facts with the running instances by age."""
    return facts._replace(running=sorted(facts.running, key=lambda running: running.seq))


def risk_of(event: InstanceStarted) -> float | None:
    """Return the risk that a spot start recorded beside its promise; None if nothing was promised."""
    basis = event.basis
    return None if basis is None or basis.probability is None else basis.estimated_probability


Undo: TypeAlias = Callable[[], None]
Fold: TypeAlias = Callable[[Any], Undo | None]
"""A function that folds an event of one kind into a part. It returns its undo, or None if nothing changed."""


Folded: TypeAlias = list[tuple[InstanceStarted | InstanceStopped, Running]]
"""Starts and stops that follow each other, each with the instance that it started or stopped."""


def is_of_run(event: Event) -> bool:
    """Return True for starts and for stops of what ran: many are folded together. Starts with hand-overs are not."""
    if type(event) is InstanceStarted:
        return event.deadline_us is None
    return type(event) is InstanceStopped and not event.aborted


class Part(Protocol):
    """A part of the state. It folds the kinds of events that concern it."""

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""

    def restore(self, facts: Facts) -> None:
        """Load the empty part from its share of the facts."""


def folds_of(parts: Iterable[Part]) -> dict[type, list[Fold]]:
    """Return the folds of each kind of event, in the order of the parts."""
    found: dict[type, list[Fold]] = {}
    for part in parts:
        for kind, fold in part.folds().items():
            found.setdefault(kind, []).append(fold)
    return found


class Alike(dict[T, T]):
    """Gives equal values as one object: those of hundreds of thousands of instances would take much memory each.

    All values are of one type: 1 is not 1.0.
    """

    def __missing__(self, value: T) -> T:
        """Keep the object that stands for the value from now on."""
        if len(self) >= _MOST_ALIKE:
            self.clear()
        self[value] = value
        return value


class Room:
    """The compiled form of placements (which instance is on which node), shared by the nodes and the instances.

    sizes (N, R): the capacity at each place of a node. `cluster` and `sizes` show the first places of longer arrays, so
    that few additions copy them.
    """

    def __init__(self) -> None:
        self.cluster: Cluster = empty_cluster(0, FIRST_ROWS, len(Resources._fields))
        self.sizes: Ints = self.cluster.free.copy()
        self._all = self.cluster.free, self.cluster.is_open, self.sizes

    def copy(self) -> Cluster:
        """Return the placements as they are now."""
        return Cluster._make(array.copy() for array in self.cluster)

    def add_place(self, size: Sequence[int]) -> None:
        """Add an open, empty place of this size (R) behind all others."""
        place = len(self.sizes)
        if place == len(self._all[0]):
            self._lengthen(max(1, place))
        free, is_open, sizes = self._all
        free[place], is_open[place], sizes[place] = size, True, size
        self._show(place + 1)

    def resize(self, place: int, size: Sequence[int]) -> None:
        """Let a place have another size (R); what runs there stays."""
        self.cluster.free[place] += np.array(size, np.int64) - self.sizes[place]
        self.sizes[place] = size

    def drop_last_place(self) -> None:
        """Take the last place away."""
        self._show(len(self.sizes) - 1)

    def keep_places(self, kept: Sequence[int]) -> None:
        """Keep these places alone, in this order. Nothing may run at the others."""
        now = np.full(len(self.sizes) + 1, NO_NODE, np.int64)  # NO_NODE, -1, finds itself at the end
        now[[*kept]] = np.arange(len(kept))
        self.cluster.node_of[:] = now[self.cluster.node_of]
        self._all = self.cluster.free[[*kept]], self.cluster.is_open[[*kept]], self.sizes[[*kept]]
        self._show(len(kept))

    def _lengthen(self, more: int) -> None:
        free, is_open, sizes = self._all
        none = np.zeros((more, free.shape[1]), np.int64)
        self._all = np.concatenate([free, none]), np.append(is_open, [False] * more), np.concatenate([sizes, none])

    def _show(self, count: int) -> None:
        free, is_open, sizes = self._all
        self.cluster = self.cluster._replace(free=free[:count], is_open=is_open[:count])
        self.sizes = sizes[:count]
