"""The state that the audited lines so far come to: nodes, running instances, classes, notices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from app.domain.values import EvictionPolicy, Guarantee, Market, Placement, Resources
from app.workbench.audit.books import Entered, earning_of, hours_of, started
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.jobs import AuditedJobs
from app.workbench.logcsv import LogRow

UNCOUNTED = 1 << 40
"""Capacity of a resource that a node does not count."""


@dataclass(slots=True)
class _AuditedNode:
    free: list[int]
    capacity: Resources
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class AuditedInstance:
    """A running instance; `born` is its start's seq.

    `row` is its start with the lifetime of its last extension. `booked`: its start with the first lifetime, and with
    deadline and risks of that extension; None if it was not extended.
    """

    row: LogRow
    booked: LogRow | None = None

    @property
    def in_book(self) -> LogRow:
        return self.row if self.booked is None else self.booked

    @property
    def born(self) -> int:
        return self.row.seq

    @property
    def is_spot(self) -> bool:
        return self.row.market == Market.SPOT

    def ran(self, now_us: int) -> tuple[int, int]:
        """Return the core-microseconds that a spot instance ran within its declared lifetime, and beyond."""
        cores = self.row.machine_count * self.row.demand.cores
        ran_us, declared_us = now_us - self.row.at_us, self.row.lifetime_us or 0
        return cores * min(ran_us, declared_us), cores * max(ran_us - declared_us, 0)

    @property
    def goes_first(self) -> bool:
        return self.row.goes_first is not None

    def overruns(self, now_us: int) -> bool:
        """Return True if its lifetime is over; what goes first has none that it could overrun."""
        is_over = self.row.lifetime_us is not None and now_us > self.row.at_us + self.row.lifetime_us
        return is_over and not self.goes_first

    def youth(self, now_us: int) -> tuple[bool, bool, int]:
        """Sort key: a greater one is younger. Who overruns is younger than others, and what goes first than all."""
        return self.goes_first, self.overruns(now_us), self.born


@dataclass(frozen=True, slots=True)
class Limits:
    """The part of a policy that is about owners and about instances that overrun."""

    cores: int | None
    share: float | None
    overrun_share: float | None
    overrunning: int | None
    displaces: bool


@dataclass(slots=True)
class World:
    """The state after the lines so far. What policies say is None until shown (`sla`, `strata_us`, `limits` and so on).

    `guarantee` is told by policies alone, and whether there is one (`sla`) by decisions too.
    `quotas`: the cores, the share and the overrun share of owners that have quotas of their own. `ended`: by owner, of
    each spot instance the time of its end, and the core-microseconds that it ran within its lifetime and beyond.
    """

    nodes: dict[str, _AuditedNode] = field(default_factory=dict)
    flavors: dict[str, Resources] = field(default_factory=dict)
    running: dict[str, AuditedInstance] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    placement: Placement = Placement.FIRST_FIT
    policy: EvictionPolicy = EvictionPolicy.YJF
    policy_is_fixed: bool = False
    sla: bool | None = None
    guarantee: Guarantee | None = None
    classes: dict[float, list[int]] = field(default_factory=dict)
    class_core_us: dict[float, tuple[int, int]] = field(default_factory=dict)
    strata_us: tuple[int, ...] | None = None
    unit: str | None = None
    entered: dict[float, Entered] = field(default_factory=dict)
    limits: Limits | None = None
    quotas: dict[str, tuple[int | None, float | None, float | None]] = field(default_factory=dict)
    ended: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    grace_us: int | None = None
    min_windows: int | None = None
    gives_back: bool | None = None
    scheduled: dict[str, LogRow] = field(default_factory=dict)
    handovers: dict[str, LogRow] = field(default_factory=dict)
    overdue: set[str] = field(default_factory=set)
    at_risk: set[str] = field(default_factory=set)
    told: set[str] = field(default_factory=set)
    jobs: AuditedJobs = field(default_factory=AuditedJobs)
    seq: int = 0
    at_us: int = 0

    @property
    def promises(self) -> bool:
        """True if a policy says that something is promised, so what is promised rests on figures."""
        return self.guarantee not in {None, Guarantee.NONE}

    def spot_on(self, node: str, now_us: int) -> list[AuditedInstance]:
        """Return the spot instances of which a machine runs on a node, youngest first."""
        found = [i for i in self.running.values() if i.is_spot and node in i.row.places]
        return sorted(found, key=lambda i: i.youth(now_us), reverse=True)

    def open_nodes(self) -> list[tuple[str, _AuditedNode]]:
        """Return the nodes that take placements, in node order."""
        return [(name, node) for name, node in self.nodes.items() if node.is_open]

    def allowed_nodes(self, start: LogRow) -> list[tuple[str, _AuditedNode]]:
        """Return the nodes that a start may take, in node order."""
        return [one for one in self.open_nodes() if not start.allowed or one[0] in start.allowed]


def check_order(world: World, row: LogRow) -> None:
    """Check that the event follows the one before it, by number and by time."""
    require(row, Rule.ORDER, row.seq == world.seq + 1, f"seq {row.seq} follows {world.seq}")
    require(row, Rule.ORDER, row.at_us >= world.at_us, "time runs backwards")
    world.seq, world.at_us = row.seq, row.at_us
    world.jobs.check(row)


def add_node(world: World, name: str, capacity: Resources) -> None:
    world.nodes[name] = _AuditedNode([size or UNCOUNTED for size in capacity], capacity)


def node_of(world: World, row: LogRow) -> _AuditedNode:
    node = world.nodes.get(row.node or "")
    if node is None:
        fail(row, Rule.FOLD, f"there is no node {row.node!r}")
    return node


def enter(world: World, row: LogRow) -> None:
    for place in row.places:
        node = world.nodes[place]
        node.free = minus(node.free, row.demand)
    # Of a start it is the deadline of those whom it evicted; of what runs, the end of an extended lifetime.
    world.running[row.instance_id or ""] = AuditedInstance(row._replace(deadline_us=None))


def leave(world: World, row: LogRow) -> None:
    """End a running instance and free its room; the line must repeat what its start says."""
    world.at_risk.discard(row.instance_id or "")
    instance = world.running.pop(row.instance_id or "", None)
    if instance is None:
        fail(row, Rule.FOLD, f"{row.instance_id} ends but does not run")
    start = instance.row
    same = _told(row) == _told(start)
    require(row, Rule.FOLD, same, f"it does not repeat what the start of {row.instance_id} says (event {start.seq})")
    for place in start.places:
        node = world.nodes[place]
        node.free = plus(node.free, start.demand)
    if instance.is_spot and start.owner is not None and row.aborted is None:
        world.ended.setdefault(start.owner, []).append((row.at_us, *instance.ran(row.at_us)))


def _told(row: LogRow) -> tuple[object, ...]:
    return row.market, row.demand, row.lifetime_us, row.node, row.nodes


def resized(node: _AuditedNode, capacity: Resources) -> list[int]:
    """Return what a node would have free with another capacity; below zero if it would be overfull."""
    more = [(size or UNCOUNTED) - (old or UNCOUNTED) for size, old in zip(capacity, node.capacity, strict=True)]
    return [room + size for room, size in zip(node.free, more, strict=True)]


def resize(world: World, name: str, capacity: Resources) -> None:
    """Let a node have another capacity."""
    node = world.nodes[name]
    node.free, node.capacity = resized(node, capacity), capacity


def class_counts(world: World, probability: float) -> list[int]:
    """Return how many instances with this promise were admitted, and how many evicted before they overran."""
    return world.classes.setdefault(probability, [0, 0])


def class_hours(world: World, probability: float) -> tuple[float, float]:
    """Return the core-hours that instances with this promise declared, and those of the ones evicted in time."""
    declared_us, lost_us = world.class_core_us.get(probability, (0, 0))
    return declared_us / 3.6e9, lost_us / 3.6e9


def count_core_us(world: World, row: LogRow, lifetime_us: int, *, lost: bool = False) -> None:
    """Count the core-microseconds of a lifetime, or of what it became longer by, as declared or as lost."""
    if row.probability is not None:
        declared_us, lost_us = world.class_core_us.get(row.probability, (0, 0))
        core_us = row.machine_count * row.demand.cores * lifetime_us
        world.class_core_us[row.probability] = (
            (declared_us, lost_us + core_us) if lost else (declared_us + core_us, lost_us)
        )


def enter_in_book(world: World, row: LogRow, lifetime_us: int | None) -> None:
    """Enter an admitted start in the book of its promise, if it records a promise and an estimate.

    `lifetime_us`: what it is promised now. `row` has the lifetime by whose stratum it is booked.
    """
    earned = earning_of(row)
    if earned is not None and row.probability is not None:
        more = started(row._replace(lifetime_us=lifetime_us), earned)
        world.entered.setdefault(row.probability, Entered()).enter(row.lifetime_us or 0, more)


def booked_with(world: World, probability: float) -> Iterator[tuple[LogRow, float]]:
    """Yield the running spot instances of a promise as they stand in books, with their core-hours."""
    for one in world.running.values():
        if one.is_spot and one.row.probability == probability:
            yield one.in_book, hours_of(one.row, one.row.lifetime_us)


def booked(world: World) -> Iterator[tuple[LogRow, float]]:
    """Yield the running spot instances that stand in a book, with their core-hours."""
    for one in world.running.values():
        if one.is_spot and one.row.probability is not None and one.row.estimated_probability is not None:
            yield one.in_book, hours_of(one.row, one.row.lifetime_us)


def follow_strata(world: World, row: LogRow) -> None:
    """Begin the books anew if the policy brings other strata or another unit: with what runs, the oldest first."""
    before, world.strata_us, world.unit = (world.strata_us, world.unit), row.strata_us, row.unit
    if before[0] is not None and before != (row.strata_us, row.unit):
        world.entered.clear()
        for instance in sorted(world.running.values(), key=lambda instance: instance.born):
            enter_in_book(world, instance.in_book, instance.row.lifetime_us)


def follow_policy(world: World, row: LogRow) -> None:
    """Choose victims as this line says from here on, unless the caller fixed the policy."""
    known = row.eviction_policy in set(EvictionPolicy)
    require(row, Rule.FOLD, known, f"the eviction policy {row.eviction_policy!r} is unknown")
    if not world.policy_is_fixed:
        world.policy = EvictionPolicy(row.eviction_policy or "")


def follow_placement(world: World, row: LogRow) -> None:
    """Place as this line says from here on; a line that says nothing leaves it as it was."""
    if row.placement is not None:
        known = row.placement in set(Placement)
        require(row, Rule.FOLD, known, f"the placement {row.placement!r} is unknown")
        world.placement = Placement(row.placement)


def ids_of(instances: Iterable[AuditedInstance]) -> set[str]:
    return {instance.row.instance_id or "" for instance in instances}


def fitting_node(world: World, start: LogRow) -> str | None:
    """Return the node with room that a start takes: the first that it may take, or the tightest of them."""
    return _fitting(world, {name: node.free for name, node in world.allowed_nodes(start)}, start.demand)


def fitting_nodes(world: World, row: LogRow) -> tuple[str, ...]:
    """Return the nodes that the machines of a start take one after the other; none if they do not all fit."""
    rooms, found = {name: node.free for name, node in world.allowed_nodes(row)}, []
    for _ in range(row.machine_count):
        name = _fitting(world, rooms, row.demand)
        if name is None:
            return ()
        rooms[name] = minus(rooms[name], row.demand)
        found.append(name)
    return tuple(found)


def _fitting(world: World, rooms: Mapping[str, list[int]], demand: Resources) -> str | None:
    having_room = [(name, free) for name, free in rooms.items() if fits(free, demand)]
    if world.placement is Placement.BEST_FIT:
        having_room.sort(key=lambda one: [room for room, size in zip(one[1], demand, strict=True) if size])
    return having_room[0][0] if having_room else None


def count_slots(free: list[int], demand: Resources) -> int:
    return min(room // size for room, size in zip(free, demand, strict=True) if size)


def fits(free: list[int], demand: Resources) -> bool:
    return all(size <= room for room, size in zip(free, demand, strict=True))


def freed(free: list[int], instance: AuditedInstance, node: str) -> list[int]:
    """Return a node's free room with an instance gone."""
    for place in instance.row.places:
        free = plus(free, instance.row.demand) if place == node else free
    return free


def held(room: list[int], instance: AuditedInstance, node: str) -> list[int]:
    """Return what is left of a node's room with an instance back again."""
    for place in instance.row.places:
        room = minus(room, instance.row.demand) if place == node else room
    return room


def plus(free: list[int], demand: Resources) -> list[int]:
    return [room + size for room, size in zip(free, demand, strict=True)]


def minus(free: list[int], demand: Resources) -> list[int]:
    return [room - size for room, size in zip(free, demand, strict=True)]
