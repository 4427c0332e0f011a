"""Checks an exported log independently against the rules that never break (docs/architecture.md).

It is plain Python over the log's lines alone and does not use the engine, because the point is that both agree. A log
does not show everything: that all answers are in it (rule 6), and that repeated requests had equal answers (rule 7). Of
these the audit checks that every event follows from those before it, and that no instance id is decided twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NoReturn

from app.domain.times import MAX_TIME_US
from app.domain.values import (
    Budget,
    EvictionPolicy,
    EvictionReason,
    Guarantee,
    Market,
    Rejection,
    Resources,
    RiskLevel,
)
from app.workbench.logcsv import LogRow

UNCOUNTED = 1 << 40
"""What a node has of a resource that it does not count."""


class Rule(IntEnum):
    """The rules by their numbers in docs/architecture.md."""

    CAPACITY = 1
    ON_DEMAND_STAYS = 2
    ON_DEMAND_FIRST = 3
    EVICTION = 4
    SLA = 5
    FOLD = 6
    ONCE = 7
    ORDER = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """The first event that breaks a rule."""

    seq: int
    rule: Rule
    why: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over a log. By market: starts asked for and accepted, rejections by reason, instances running at the end.

    `classes`: by promised probability, the number admitted, and the number of those evicted before they overran.
    """

    requested: Mapping[str, int]
    admitted: Mapping[str, int]
    rejected: Mapping[str, Mapping[str, int]]
    evicted: int
    drilled: int
    stopped: int
    running: Mapping[str, int]
    used_cores: Mapping[str, int]
    capacity_cores: int
    classes: Mapping[float, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Audit:
    """The result: the number of events read, and either a finding or the totals of the log."""

    event_count: int
    finding: Finding | None
    totals: Totals | None = None


class _Broken(Exception):
    def __init__(self, row: LogRow, rule: Rule, why: str) -> None:
        super().__init__(why)
        self.finding = Finding(row.seq, rule, why)


@dataclass(slots=True)
class _AuditedNode:
    free: list[int]
    capacity: Resources
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class _AuditedInstance:
    """A running instance; `born` is its start's seq."""

    row: LogRow

    @property
    def born(self) -> int:
        return self.row.seq

    @property
    def is_spot(self) -> bool:
        return self.row.market == Market.SPOT

    def youth(self, now_us: int) -> tuple[bool, int]:
        """Sort key: a greater one is younger; overrunning instances are younger than all others."""
        overruns = self.row.lifetime_us is not None and now_us > self.row.at_us + self.row.lifetime_us
        return overruns, self.born


@dataclass(slots=True)
class _World:
    """The state after the lines so far. `sla` is None until the log shows whether one is in force."""

    nodes: dict[str, _AuditedNode] = field(default_factory=dict)
    running: dict[str, _AuditedInstance] = field(default_factory=dict)
    decided: set[str] = field(default_factory=set)
    policy: EvictionPolicy = EvictionPolicy.YJF
    policy_is_fixed: bool = False
    sla: bool | None = None
    classes: dict[float, list[int]] = field(default_factory=dict)
    grace_us: int | None = None
    scheduled: dict[str, LogRow] = field(default_factory=dict)
    handovers: dict[str, LogRow] = field(default_factory=dict)
    overdue: set[str] = field(default_factory=set)
    at_risk: set[str] = field(default_factory=set)
    seq: int = 0
    at_us: int = 0

    def spot_on(self, node: str, now_us: int) -> list[_AuditedInstance]:
        """Return the spot instances of a node, youngest first."""
        found = [i for i in self.running.values() if i.is_spot and i.row.node == node]
        return sorted(found, key=lambda i: i.youth(now_us), reverse=True)

    def open_nodes(self) -> list[tuple[str, _AuditedNode]]:
        """Return the nodes that take placements, in node order."""
        return [(name, node) for name, node in self.nodes.items() if node.is_open]


def audit(
    rows: Iterable[LogRow], nodes: Sequence[tuple[str, Resources]], policy: EvictionPolicy | None = None
) -> Audit:
    """Check a log, up to the first event that breaks a rule.

    `nodes` are present from the beginning, in node order; nodes that the log adds come after them. `policy` is the rule
    by which victims are chosen; None takes it from the log's own column, or `yjf` if it has none.
    """
    lines = list(rows)
    world = _World()
    for name, capacity in nodes:
        _add_node(world, name, capacity)
    if policy is not None:
        world.policy, world.policy_is_fixed = policy, True
    at = 0
    try:
        while at < len(lines):
            at += _check_step(world, lines, at)
    except _Broken as broken:
        return Audit(len(lines), broken.finding)
    return Audit(len(lines), None, _totals(world, lines))


def _check_step(world: _World, lines: list[LogRow], at: int) -> int:
    """Check the next event with the evictions directly before it; return the number of lines."""
    row = lines[at]
    if row.kind == "instance_evicted":
        return _check_evictions(world, lines, at)
    if row.kind == "eviction_scheduled":
        return _check_scheduled(world, lines, at)
    check = _CHECKS.get(row.kind)
    if check is None:
        _break(row, Rule.FOLD, f"the kind {row.kind!r} is unknown")
    _check_order(world, row)
    check(world, row)
    return 1


def _break(row: LogRow, rule: Rule, why: str) -> NoReturn:
    raise _Broken(row, rule, why)


def _require(row: LogRow, rule: Rule, holds: bool, why: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not holds:
        _break(row, rule, why)


def _check_order(world: _World, row: LogRow) -> None:
    _require(row, Rule.ORDER, row.seq == world.seq + 1, f"seq {row.seq} follows {world.seq}")
    _require(row, Rule.ORDER, row.at_us >= world.at_us, "time runs backwards")
    world.seq, world.at_us = row.seq, row.at_us


# --- starts ----------------------------------------------------------------------------------------------------------


def _check_started(world: _World, row: LogRow) -> None:
    """Check a start without evictions."""
    _check_decided_once(world, row)
    fitting = _first_fit(world, row.demand)
    _require(row, Rule.CAPACITY, fitting is not None, f"no node has room for it, so {row.node} is over its capacity")
    if row.market == Market.SPOT:
        _check_quote(world, row)
        _require(row, Rule.SLA, not _is_owed_rejection(row), f"it is admitted, but {_shortfall(row)}")
    _check_placement(world, row, fitting)
    _enter(world, row)
    if row.market == Market.SPOT and row.probability is not None:
        _class(world, row.probability)[0] += 1


def _check_placement(world: _World, row: LogRow, expected: str | None) -> None:
    node = world.nodes.get(row.node or "")
    if node is None:
        _break(row, Rule.FOLD, f"there is no node {row.node!r}")
    _require(row, Rule.CAPACITY, _fits(node.free, row.demand), f"{row.node} is over its capacity")
    _require(row, Rule.FOLD, row.node == expected, f"it takes {row.node}, but {expected} is the first that fits")


def _check_rejected(world: _World, row: LogRow) -> None:
    _check_decided_once(world, row)
    if row.market == Market.ON_DEMAND:
        _check_on_demand_rejected(world, row)
    else:
        _check_quote(world, row)
        _check_spot_rejected(world, row)


def _check_on_demand_rejected(world: _World, row: LogRow) -> None:
    _require(row, Rule.ON_DEMAND_FIRST, row.reason == Rejection.NO_CAPACITY, f"the reason is {row.reason!r}")
    for name, node in world.open_nodes():
        room = node.free
        for instance in world.spot_on(name, row.at_us):
            room = _plus(room, instance.row.demand)
        _require(row, Rule.ON_DEMAND_FIRST, not _fits(room, row.demand), f"{name} could have made room for it")


def _check_spot_rejected(world: _World, row: LogRow) -> None:
    fitting = _first_fit(world, row.demand)
    if row.reason == Rejection.NO_CAPACITY:
        _require(row, Rule.SLA, fitting is None, f"rejected for want of capacity, but {fitting} has room")
        return
    _require(row, Rule.SLA, row.reason in set(Rejection), f"the reason {row.reason!r} is unknown")
    _require(row, Rule.SLA, fitting is not None, f"rejected as {row.reason}, but there is no capacity either")
    _require(row, Rule.SLA, row.probability is not None, f"rejected as {row.reason} without an SLA")
    if row.reason == Rejection.BUDGET_EXHAUSTED:
        _require(row, Rule.SLA, row.budget is not None, "rejected by its budget, but there is none")
        _require(row, Rule.SLA, _is_owed_rejection(row), "rejected by its budget, which could afford it")
    elif row.reason == Rejection.SLA_UNATTAINABLE:
        _require(row, Rule.SLA, row.budget is None, "rejected by its quote, but it rests on a budget")
        _require(row, Rule.SLA, row.quoted_lifetime_us is not None, "rejected by its quote, but there is none")
        _require(row, Rule.SLA, _is_owed_rejection(row), "rejected by its quote, which is above its lifetime")
    elif row.reason == Rejection.NO_HISTORY:
        _require(row, Rule.SLA, row.quoted_lifetime_us is None, "rejected for want of history, but there is a quote")
    else:
        _require(row, Rule.SLA, row.epoch is not None, "rejected because the table is too old, but there is none")


def _check_decided_once(world: _World, row: LogRow) -> None:
    name = row.instance_id
    if name is None:
        _break(row, Rule.FOLD, "it has no instance id")
    _require(row, Rule.ONCE, name not in world.decided, f"{name} was decided before")
    _require(row, Rule.FOLD, row.market in set(Market), f"the market {row.market!r} is unknown")
    _require(row, Rule.FOLD, max(row.demand) > 0 and min(row.demand) >= 0, "it asks for nothing")
    world.decided.add(name)
    if row.eviction_policy is not None:
        _follow_policy(world, row)


# --- the SLA ---------------------------------------------------------------------------------------------------------


def _check_quote(world: _World, row: LogRow) -> None:
    """Check that a spot decision records its slots and, under an SLA, the promise and the quote."""
    slots = sum(_slots(node.free, row.demand) for _, node in world.open_nodes())
    _require(row, Rule.SLA, row.slots == slots, f"it records {row.slots} slots, but there were {slots}")
    _require(row, Rule.SLA, row.lifetime_us is not None and row.lifetime_us >= 0, "it declares no lifetime")
    promised = row.probability is not None
    if world.sla is None:
        world.sla = promised
    _require(row, Rule.SLA, promised == world.sla, "whether an SLA is in force does not agree with what it records")
    if row.probability is not None:
        _require(row, Rule.SLA, 0 < row.probability < 1, f"the probability {row.probability} is not one")
    if row.quoted_lifetime_us is not None or row.epoch is not None:
        _require(row, Rule.SLA, promised, "it records a quote, but no probability")
    if row.quoted_lifetime_us is not None:
        _require(row, Rule.SLA, row.epoch is not None, "it records a quote, but not of which epoch")
    if row.budget is not None and row.probability is not None:
        _check_budget(world, row, row.probability, row.budget)
    if promised and row.kind == "instance_started":
        _require(row, Rule.SLA, row.quoted_lifetime_us is not None, "it is admitted under an SLA without a quote")


def _check_budget(world: _World, row: LogRow, probability: float, budget: Budget) -> None:
    """Check that the recorded budget follows from the lines so far."""
    admitted, evicted = _class(world, probability)
    _require(row, Rule.SLA, budget.evicted == evicted, f"it records {budget.evicted} evicted, but there were {evicted}")
    earned = probability * (admitted + 1)
    _require(row, Rule.SLA, budget.earned == earned, f"it records {budget.earned} earned, but it is {earned}")
    running = sum(i.row.probability == probability for i in world.running.values())
    bounds = 0 <= budget.committed <= running and 0 <= budget.charge <= 1
    _require(
        row, Rule.SLA, bounds, f"{budget.committed} and {budget.charge} are no charges of {running} and 1 instances"
    )
    _require(row, Rule.SLA, budget.risk >= (row.estimated_probability or 0), "its risk is below the table's")


def _class(world: _World, probability: float) -> list[int]:
    """Return how many instances with this promise were admitted, and how many evicted before they overran."""
    return world.classes.setdefault(probability, [0, 0])


def _shortfall(row: LogRow) -> str:
    return "the budget cannot afford it" if row.budget else "the quote is not above its lifetime"


def _is_owed_rejection(row: LogRow) -> bool:
    """Return True if a rejection is owed: the pooled budget cannot afford the start, or the quote is not greater than
    the declared lifetime (spot-sla-conference, II).
    """
    if row.budget is not None and row.probability is not None:
        return not _affords(row.budget, row.probability)
    if row.probability is None or row.quoted_lifetime_us is None or row.lifetime_us is None:
        return False
    return row.quoted_lifetime_us <= row.lifetime_us


def _affords(budget: Budget, probability: float) -> bool:
    """Apply the rule of docs/forecast.md, *The pooled guarantee*."""
    needed = 2 * budget.risk if budget.evicted > budget.earned else budget.risk
    if needed <= probability:
        return True
    usable = budget.earned if budget.charge < 1 else 0.8 * budget.earned
    return budget.evicted + budget.committed + budget.charge <= usable


# --- ends ------------------------------------------------------------------------------------------------------------


def _check_stopped(world: _World, row: LogRow) -> None:
    _leave(world, row)


def _check_evictions(world: _World, lines: list[LogRow], at: int) -> int:
    """Check evictions and the event that caused them, which follows at once and at the same time."""
    first = lines[at]
    if first.reason == EvictionReason.DRILL:
        return _check_drill(world, first)
    victims: list[LogRow] = []
    while at + len(victims) < len(lines):
        row = lines[at + len(victims)]
        if row.kind != "instance_evicted" or row.cause_seq != first.cause_seq:
            break
        victims.append(row)
    after = at + len(victims)
    if after == len(lines) or lines[after].seq != first.cause_seq or lines[after].at_us != first.at_us:
        for row in victims:
            _check_victim(world, row)
        _break(first, Rule.EVICTION, f"event {first.cause_seq}, its cause, does not follow at once")
    cause = lines[after]
    if cause.kind == "node_removed":
        _check_node_cleared(world, cause, victims)
    else:
        _check_made_room(world, cause, victims)
    return len(victims) + 1


# --- notices (docs/notices.md) ---------------------------------------------------------------------------------------


def _check_scheduled(world: _World, lines: list[LogRow], at: int) -> int:
    """Check deadlines of victims: their evictions follow at once, in the same order, for the same cause."""
    first = lines[at]
    rows = []
    for row in lines[at:]:
        if row.kind != "eviction_scheduled" or row.cause_seq != first.cause_seq:
            break
        rows.append(row)
    followers = lines[at + len(rows) : at + 2 * len(rows)]
    same = [(r.instance_id, r.cause_seq, r.at_us, r.reason) for r in rows]
    told = [(r.instance_id, r.cause_seq, r.at_us, r.reason) for r in followers if r.kind == "instance_evicted"]
    _require(first, Rule.EVICTION, same == told, "the evictions that it announces do not follow at once")
    for row in rows:
        _check_order(world, row)
        _check_deadline(world, row)
        world.scheduled[row.instance_id or ""] = row
    return len(rows)


def _check_deadline(world: _World, row: LogRow) -> None:
    deadline_us = row.deadline_us
    if deadline_us is None:
        _break(row, Rule.FOLD, "it has no deadline")
    if world.grace_us is None:
        _require(row, Rule.EVICTION, deadline_us > row.at_us, "its deadline is not after it")
    else:
        expected = min(row.at_us + world.grace_us, MAX_TIME_US)
        _require(row, Rule.EVICTION, deadline_us == expected, "its deadline is not the end of the grace period")


def _check_handed_over(world: _World, row: LogRow) -> None:
    """Check that an eviction under a grace period was announced; it then awaits a confirmation."""
    notice = world.scheduled.pop(row.instance_id or "", None)
    if world.grace_us is not None:
        _require(row, Rule.EVICTION, (notice is not None) == (world.grace_us > 0), "its announcement is not as agreed")
    if notice is not None:
        world.handovers[row.instance_id or ""] = notice


def _check_confirmed(world: _World, row: LogRow) -> None:
    known = world.handovers.pop(row.instance_id or "", None)
    _require(row, Rule.FOLD, known is not None, f"nobody waits for a word about {row.instance_id}")
    world.overdue.discard(row.instance_id or "")


def _check_overdue(world: _World, row: LogRow) -> None:
    name = row.instance_id or ""
    notice = world.handovers.get(name)
    if notice is None or name in world.overdue:
        _break(row, Rule.FOLD, f"nobody waits for a word about {name}, or it is overdue already")
    late = notice.deadline_us is not None and notice.deadline_us <= row.at_us
    _require(row, Rule.FOLD, late and row.deadline_us == notice.deadline_us, "its deadline has not passed")
    world.overdue.add(name)


def _check_risk(world: _World, row: LogRow) -> None:
    name = row.instance_id or ""
    instance = world.running.get(name)
    _require(row, Rule.FOLD, instance is not None and instance.is_spot, f"{name} is not a running spot instance")
    raised = row.reason == RiskLevel.RAISED
    _require(row, Rule.FOLD, row.reason in set(RiskLevel), f"the level {row.reason!r} is unknown")
    _require(row, Rule.FOLD, raised != (name in world.at_risk), f"{name} was told the same before")
    if row.risk is None or row.threshold is None:
        _break(row, Rule.FOLD, "it lacks the risk or the threshold")
    _require(row, Rule.FOLD, raised == (row.risk > row.threshold), "its level is not what its probability says")
    (world.at_risk.add if raised else world.at_risk.discard)(name)


# --- victims of drills -----------------------------------------------------------------------------------------------


def _check_drill(world: _World, row: LogRow) -> int:
    """Check a drill: it evicts one spot instance for nothing that follows, and is its own cause."""
    _check_victim(world, row)
    _require(row, Rule.EVICTION, row.cause_seq == row.seq, f"it is a drill, but names event {row.cause_seq} as cause")
    _leave(world, row)
    return 1


def _check_victim(world: _World, row: LogRow) -> None:
    _check_order(world, row)
    instance = world.running.get(row.instance_id or "")
    if instance is None:
        _break(row, Rule.FOLD, f"{row.instance_id} is evicted but does not run")
    _require(row, Rule.ON_DEMAND_STAYS, instance.is_spot, f"{row.instance_id} is on-demand and evicted")
    promised = instance.row.probability
    if promised is not None and row.reason != EvictionReason.DRILL and not instance.youth(row.at_us)[0]:
        _class(world, promised)[1] += 1
    if row.eviction_policy is not None:
        _follow_policy(world, row)
    _check_handed_over(world, row)


def _check_made_room(world: _World, cause: LogRow, victims: list[LogRow]) -> None:
    """Check an on-demand start that did not fit: it takes the node that its victims leave."""
    for row in victims:
        _check_victim(world, row)
        _require(row, Rule.EVICTION, row.reason == EvictionReason.ON_DEMAND_START, f"the reason is {row.reason!r}")
    first = victims[0]
    _require(first, Rule.EVICTION, _is_on_demand_start(cause), f"event {cause.seq}, its cause, is no on-demand start")
    fitting = _first_fit(world, cause.demand)
    _require(first, Rule.EVICTION, fitting is None, f"event {cause.seq}, its cause, fitted on {fitting} without it")
    node, expected = _plan(world, cause)
    for row in victims:
        told = f"{sorted(expected)} are the youngest-first minimal set that clears a node for event {cause.seq}"
        _require(row, Rule.EVICTION, row.instance_id in expected, f"{row.instance_id} is evicted, but {told}")
    named = {row.instance_id for row in victims}
    _require(cause, Rule.EVICTION, named == expected, f"{sorted(expected - named)} should have been evicted too")
    for row in victims:
        _leave(world, row)
    _check_order(world, cause)
    _check_decided_once(world, cause)
    _require(cause, Rule.EVICTION, cause.node == node, f"it takes {cause.node}, but the evictions clear {node}")
    _check_placement(world, cause, node)
    _enter(world, cause)


def _is_on_demand_start(row: LogRow) -> bool:
    return row.kind == "instance_started" and row.market == Market.ON_DEMAND


def _check_node_cleared(world: _World, cause: LogRow, victims: list[LogRow]) -> None:
    for row in victims:
        _check_victim(world, row)
        _require(row, Rule.EVICTION, row.reason == EvictionReason.NODE_REMOVED, f"the reason is {row.reason!r}")
        there = world.running[row.instance_id or ""].row.node == cause.node
        _require(row, Rule.EVICTION, there, f"{row.instance_id} does not run on {cause.node}, which is removed")
        _leave(world, row)
    _check_order(world, cause)
    _check_node_removed(world, cause)


# --- victims ----------------------------------------------------------------------------------------------------------


def _plan(world: _World, cause: LogRow) -> tuple[str | None, set[str]]:
    """Return the node to clear for a start that does not fit, and its victims."""
    if world.policy is EvictionPolicy.YJF_GLOBAL:
        return _plan_global(world, cause)
    plans = []
    for order, (name, node) in enumerate(world.open_nodes()):
        victims = _clear(node.free, world.spot_on(name, cause.at_us), cause.demand)
        if victims:
            oldest = min(victim.youth(cause.at_us) for victim in victims)
            plans.append(((not oldest[0], -oldest[1], len(victims), order), name, victims))
    if not plans:
        return None, set()
    _, name, victims = min(plans, key=lambda plan: plan[0])
    return name, _names(victims)


def _clear(free: list[int], spot: list[_AuditedInstance], demand: Resources) -> list[_AuditedInstance]:
    """Return the shortest youngest-first run that makes room, without those (oldest tried first) that may stay."""
    room, run = free, []
    for instance in spot:
        room = _plus(room, instance.row.demand)
        run.append(instance)
        if _fits(room, demand):
            break
    else:
        return []
    for instance in reversed(list(run)):
        without = _minus(room, instance.row.demand)
        if _fits(without, demand):
            room = without
            run.remove(instance)
    return run


def _plan_global(world: _World, cause: LogRow) -> tuple[str | None, set[str]]:
    """Evict the cloud's youngest instances one by one until some node has room (the rule of the papers)."""
    rooms = {name: node.free for name, node in world.open_nodes()}
    spot = [instance for name in rooms for instance in world.spot_on(name, cause.at_us)]
    victims = []
    for instance in sorted(spot, key=lambda i: i.youth(cause.at_us), reverse=True):
        name = instance.row.node or ""
        rooms[name] = _plus(rooms[name], instance.row.demand)
        victims.append(instance)
        if _fits(rooms[name], cause.demand):
            return name, _names(victims)
    return None, set()


def _names(instances: Iterable[_AuditedInstance]) -> set[str]:
    return {instance.row.instance_id or "" for instance in instances}


# --- nodes and policies ----------------------------------------------------------------------------------------------


def _check_node_added(world: _World, row: LogRow) -> None:
    name = row.node or ""
    _require(row, Rule.FOLD, bool(name) and name not in world.nodes, f"node {row.node!r} is there already")
    _add_node(world, name, row.demand)


def _add_node(world: _World, name: str, capacity: Resources) -> None:
    world.nodes[name] = _AuditedNode([size or UNCOUNTED for size in capacity], capacity)


def _check_node_drained(world: _World, row: LogRow) -> None:
    _node_of(world, row).is_open = False


def _check_node_opened(world: _World, row: LogRow) -> None:
    _node_of(world, row).is_open = True


def _check_node_removed(world: _World, row: LogRow) -> None:
    _node_of(world, row)
    left = [i for i in world.running.values() if i.row.node == row.node]
    on_demand = [i for i in left if not i.is_spot]
    _require(row, Rule.ON_DEMAND_STAYS, not on_demand, f"{_names(on_demand)} are on-demand and run on it")
    _require(row, Rule.CAPACITY, not left, f"{_names(left)} run on a node that is gone")
    del world.nodes[row.node or ""]


def _node_of(world: _World, row: LogRow) -> _AuditedNode:
    node = world.nodes.get(row.node or "")
    if node is None:
        _break(row, Rule.FOLD, f"there is no node {row.node!r}")
    return node


def _check_policy(world: _World, row: LogRow) -> None:
    world.sla = None if row.guarantee is None else row.guarantee != Guarantee.NONE
    world.grace_us = row.grace_us
    if row.eviction_policy is not None:
        _follow_policy(world, row)


def _check_flavor(world: _World, row: LogRow) -> None:
    """Accept a flavor's line: starts carry their own resource vectors, so it tells nothing new."""


def _follow_policy(world: _World, row: LogRow) -> None:
    known = row.eviction_policy in set(EvictionPolicy)
    _require(row, Rule.FOLD, known, f"the eviction policy {row.eviction_policy!r} is unknown")
    if not world.policy_is_fixed:
        world.policy = EvictionPolicy(row.eviction_policy or "")


_CHECKS: dict[str, Callable[[_World, LogRow], None]] = {
    "cloud_created": _check_policy,
    "policy_changed": _check_policy,
    "node_added": _check_node_added,
    "node_drained": _check_node_drained,
    "node_opened": _check_node_opened,
    "node_removed": _check_node_removed,
    "flavor_added": _check_flavor,
    "instance_started": _check_started,
    "instance_rejected": _check_rejected,
    "instance_stopped": _check_stopped,
    "eviction_confirmed": _check_confirmed,
    "eviction_overdue": _check_overdue,
    "eviction_risk": _check_risk,
}


# --- totals ----------------------------------------------------------------------------------------------------------


def _totals(world: _World, lines: Sequence[LogRow]) -> Totals:
    """Return the sums of a log that breaks no rule.

    What happened is counted from its lines; what is present at the end is read from the state that they lead to.
    """
    started = Counter(row.market or "" for row in lines if row.kind == "instance_started")
    refused = Counter((row.market or "", row.reason or "") for row in lines if row.kind == "instance_rejected")
    evicted = Counter(row.reason == EvictionReason.DRILL for row in lines if row.kind == "instance_evicted")
    running = [instance.row for instance in world.running.values()]
    rejected = {of: {why: count for (market, why), count in refused.items() if market == of} for of in Market}
    return Totals(
        requested={of.value: started[of] + sum(rejected[of].values()) for of in Market},
        admitted={of.value: started[of] for of in Market},
        rejected={of.value: rejected[of] for of in Market},
        evicted=evicted[False],
        drilled=evicted[True],
        stopped=sum(row.kind == "instance_stopped" for row in lines),
        running={of.value: sum(row.market == of for row in running) for of in Market},
        used_cores={of.value: sum(row.demand.cores for row in running if row.market == of) for of in Market},
        capacity_cores=sum(node.capacity.cores for node in world.nodes.values()),
        classes={promised: (admitted, lost) for promised, (admitted, lost) in sorted(world.classes.items())},
    )


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _enter(world: _World, row: LogRow) -> None:
    node = world.nodes[row.node or ""]
    node.free = _minus(node.free, row.demand)
    world.running[row.instance_id or ""] = _AuditedInstance(row)


def _leave(world: _World, row: LogRow) -> None:
    world.at_risk.discard(row.instance_id or "")
    instance = world.running.pop(row.instance_id or "", None)
    if instance is None:
        _break(row, Rule.FOLD, f"{row.instance_id} ends but does not run")
    start = instance.row
    same = (row.market, row.demand, row.lifetime_us, row.node) == (
        start.market,
        start.demand,
        start.lifetime_us,
        start.node,
    )
    _require(row, Rule.FOLD, same, f"it does not repeat what the start of {row.instance_id} says (event {start.seq})")
    node = world.nodes[start.node or ""]
    node.free = _plus(node.free, start.demand)


def _told(row: LogRow) -> tuple[object, ...]:
    return row.market, row.demand, row.lifetime_us, row.node


def _first_fit(world: _World, demand: Resources) -> str | None:
    return next((name for name, node in world.open_nodes() if _fits(node.free, demand)), None)


def _slots(free: list[int], demand: Resources) -> int:
    return min(room // size for room, size in zip(free, demand, strict=True) if size)


def _fits(free: list[int], demand: Resources) -> bool:
    return all(size <= room for room, size in zip(free, demand, strict=True))


def _plus(free: list[int], demand: Resources) -> list[int]:
    return [room + size for room, size in zip(free, demand, strict=True)]


def _minus(free: list[int], demand: Resources) -> list[int]:
    return [room - size for room, size in zip(free, demand, strict=True)]
