"""Rules 2 and 4: only spot instances are evicted, for a cause that follows at once, and as few as needed."""

from __future__ import annotations

from collections.abc import Callable
from operator import neg

from app.domain.values import EvictionReason, Market, Resources
from app.workbench.audit.books import BookSums, Entered, earning_of, hours_of, started
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.moves import check_moved
from app.workbench.audit.nodes import check_node_removed, check_node_resized
from app.workbench.audit.notices import check_handed_over
from app.workbench.audit.starts import check_decided_once, check_placement, check_started
from app.workbench.audit.victims import plan_clearing, plan_displacement, plan_victims
from app.workbench.audit.wanted import take_back
from app.workbench.audit.world import (
    World,
    check_order,
    class_counts,
    count_core_us,
    enter,
    fitting_node,
    follow_policy,
    leave,
    node_of,
    plus,
    resized,
)
from app.workbench.logcsv import LogRow


def check_stopped(world: World, row: LogRow) -> None:
    (take_back if row.aborted is None else _strike)(world, row)
    leave(world, row)


def _strike(world: World, row: LogRow) -> None:
    """Take out of all counts an instance that never ran."""
    instance = world.running.get(row.instance_id or "")
    if instance is None or not instance.is_spot or instance.row.probability is None:
        return
    start, promised = instance.row, instance.row.probability
    class_counts(world, promised)[0] -= 1
    count_core_us(world, start, -(start.lifetime_us or 0))
    earned = earning_of(instance.in_book)
    if earned is not None:
        entered = started(start, earned)
        less = BookSums._make(map(neg, entered))
        world.entered.setdefault(promised, Entered()).enter(instance.in_book.lifetime_us or 0, less)


def check_evictions(world: World, lines: list[LogRow], at: int) -> int:
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
        fail(first, Rule.EVICTION, f"event {first.cause_seq}, its cause, does not follow at once")
    cause = lines[after]
    if cause.kind == "node_removed":
        _check_node_cleared(world, cause, victims)
    elif cause.kind in _ONE_NODE or cause.observed is not None:
        _check_cleared(world, cause, victims)
    else:
        _check_made_room(world, cause, victims)
    return len(victims) + 1


def _check_drill(world: World, row: LogRow) -> int:
    """Check a drill: it evicts one spot instance for nothing that follows, and is its own cause."""
    _check_victim(world, row)
    require(row, Rule.EVICTION, row.cause_seq == row.seq, f"it is a drill, but names event {row.cause_seq} as cause")
    leave(world, row)
    return 1


def _check_victim(world: World, row: LogRow) -> None:
    check_order(world, row)
    instance = world.running.get(row.instance_id or "")
    if instance is None:
        fail(row, Rule.FOLD, f"{row.instance_id} is evicted but does not run")
    require(row, Rule.ON_DEMAND_STAYS, instance.is_spot, f"{row.instance_id} is on-demand and evicted")
    promised = instance.row.probability
    if promised is not None and row.reason != EvictionReason.DRILL and not instance.overruns(row.at_us):
        class_counts(world, promised)[1] += 1
        count_core_us(world, instance.row, instance.row.lifetime_us or 0, lost=True)
        if earning_of(instance.row) is not None:
            lost = BookSums(evicted=1, evicted_core_hours=hours_of(instance.row, instance.row.lifetime_us))
            world.entered.setdefault(promised, Entered()).enter(instance.in_book.lifetime_us or 0, lost)
    if row.eviction_policy is not None:
        follow_policy(world, row)
    check_handed_over(world, row)


def _check_made_room(world: World, cause: LogRow, victims: list[LogRow]) -> None:
    """Check a start that did not fit: it takes the node that its victims leave, those of a spot start overran."""
    is_spot = cause.market == Market.SPOT
    reason = EvictionReason.SPOT_START if is_spot else EvictionReason.ON_DEMAND_START
    for row in victims:
        _check_victim(world, row)
        require(row, Rule.EVICTION, row.reason == reason, f"the reason is {row.reason!r}")
    first = victims[0]
    is_start = cause.kind == "instance_started"
    require(first, Rule.EVICTION, is_start, f"event {cause.seq}, its cause, is no accepted start")
    if is_spot:
        _check_displaced(world, cause, victims)
        return
    fitting = fitting_node(world, cause)
    require(first, Rule.EVICTION, fitting is None, f"event {cause.seq}, its cause, fitted on {fitting} without it")
    node, expected = plan_victims(world, cause)
    _check_minimal(world, cause, victims, expected)
    check_order(world, cause)
    check_decided_once(world, cause)
    require(cause, Rule.EVICTION, cause.node == node, f"it takes {cause.node}, but the evictions clear {node}")
    check_placement(world, cause, (node or "",))
    enter(world, cause)


def _check_displaced(world: World, cause: LogRow, victims: list[LogRow]) -> None:
    """Check a spot start that took the room of overrunning instances."""
    first = victims[0]
    allowed = world.limits is None or world.limits.displaces
    require(first, Rule.EVICTION, allowed, "a spot start evicts nobody under the policy in force")
    fitting = fitting_node(world, cause)
    require(first, Rule.EVICTION, fitting is None, f"event {cause.seq}, its cause, fitted on {fitting} without it")
    for row in victims:
        overruns = world.running[row.instance_id or ""].overruns(row.at_us)
        require(row, Rule.EVICTION, overruns, f"{row.instance_id} does not overrun, and a spot start evicts it")
    node, expected = plan_displacement(world, cause)
    _check_minimal(world, cause, victims, expected)
    check_order(world, cause)
    check_started(world, cause, node)


def _check_minimal(world: World, cause: LogRow, victims: list[LogRow], expected: set[str]) -> None:
    """Check that exactly these are evicted, and let them leave."""
    for row in victims:
        told = f"{sorted(expected)} are the youngest-first minimal set that clears a node for event {cause.seq}"
        require(row, Rule.EVICTION, row.instance_id in expected, f"{row.instance_id} is evicted, but {told}")
    named = {row.instance_id for row in victims}
    require(cause, Rule.EVICTION, named == expected, f"{sorted(expected - named)} should have been evicted too")
    for row in victims:
        leave(world, row)


def _check_cleared(world: World, cause: LogRow, victims: list[LogRow]) -> None:
    """Check evictions for what was observed on a node: an on-demand instance, or another capacity."""
    reason, check = _ONE_NODE.get(cause.kind, (EvictionReason.ON_DEMAND_START, check_started))
    for row in victims:
        _check_victim(world, row)
        require(row, Rule.EVICTION, row.reason == reason, f"the reason is {row.reason!r}")
    node, demand = node_of(world, cause), cause.demand
    room, own = node.free, world.running.get(cause.instance_id or "")
    if own is not None and own.row.node == cause.node:
        room = plus(room, own.row.demand)
    if cause.kind == "node_resized":
        room, demand = resized(node, cause.demand), Resources(0)
    _check_minimal(world, cause, victims, plan_clearing(world, cause, room, demand))
    check_order(world, cause)
    check(world, cause)


_ONE_NODE: dict[str, tuple[EvictionReason, Callable[[World, LogRow], None]]] = {
    "instance_moved": (EvictionReason.ON_DEMAND_MOVE, check_moved),
    "node_resized": (EvictionReason.NODE_RESIZED, check_node_resized),
}
"""The events that evict from their one node, with the reason that they give."""


def _check_node_cleared(world: World, cause: LogRow, victims: list[LogRow]) -> None:
    for row in victims:
        _check_victim(world, row)
        require(row, Rule.EVICTION, row.reason == EvictionReason.NODE_REMOVED, f"the reason is {row.reason!r}")
        there = cause.node in world.running[row.instance_id or ""].row.places
        require(row, Rule.EVICTION, there, f"{row.instance_id} does not run on {cause.node}, which is removed")
        leave(world, row)
    check_order(world, cause)
    check_node_removed(world, cause)
