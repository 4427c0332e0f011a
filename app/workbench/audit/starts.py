"""Rules 1, 3 and 7: a start takes the node that the placement says, a rejection is owed, and no id is decided twice."""

from __future__ import annotations

from collections import Counter

from app.domain.values import Market, Rejection, Resources
from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.quotas import check_quota
from app.workbench.audit.sla import check_account, check_floor, check_quote, is_owed_rejection, shortfall
from app.workbench.audit.wanted import check_least, check_wanted
from app.workbench.audit.world import (
    World,
    class_counts,
    count_core_us,
    enter,
    enter_in_book,
    fits,
    fitting_nodes,
    follow_placement,
    follow_policy,
    freed,
    node_of,
)
from app.workbench.logcsv import LogRow


def check_started(world: World, row: LogRow, cleared: str | None = None) -> None:
    """Check a start without evictions, or one for which a node was cleared of overrunning instances."""
    check_decided_once(world, row)
    if row.observed is not None:
        _check_observed(world, row)
        return
    fitting = fitting_nodes(world, row) if cleared is None else (cleared,)
    require(row, Rule.CAPACITY, bool(fitting), f"no node has room for it, so {row.node} is over its capacity")
    is_room = row.instance_id in world.jobs.rooms
    require(row, Rule.EVICTION, row.goes_first is None or is_room, "it goes first, but no room is held by it")
    if row.market == Market.SPOT and not is_room:
        check_quote(world, row)
        check_wanted(row)
        check_quota(world, row)
        require(row, Rule.SLA, not is_owed_rejection(row), f"it is admitted, but {shortfall(row)}")
    check_placement(world, row, fitting)
    enter(world, row)
    if row.market == Market.SPOT and row.probability is not None:
        class_counts(world, row.probability)[0] += 1
        count_core_us(world, row, row.lifetime_us or 0)
        enter_in_book(world, world.running[row.instance_id or ""].row, row.lifetime_us)


def _check_observed(world: World, row: LogRow) -> None:
    """Check that an instance which was not placed has room where it ran."""
    require(row, Rule.FOLD, row.market == Market.ON_DEMAND, "only on-demand instances are observed")
    require(row, Rule.CAPACITY, fits(node_of(world, row).free, row.demand), f"{row.node} is over its capacity")
    enter(world, row)


def check_placement(world: World, row: LogRow, expected: tuple[str, ...]) -> None:
    """Check that the start takes the nodes expected of it, and has room there."""
    for name, count in Counter(row.places).items():
        node = world.nodes.get(name)
        if node is None:
            fail(row, Rule.FOLD, f"there is no node {name!r}")
        demand = Resources(*(count * size for size in row.demand))
        require(row, Rule.CAPACITY, fits(node.free, demand), f"{name} is over its capacity")
    told = row.places == expected and row.node == expected[0] and row.machine_count == len(expected)
    takes, due = (", ".join(names) for names in (row.places, expected))
    require(row, Rule.FOLD, told, f"it takes {takes}, but {due} by {world.placement}")


def check_rejected(world: World, row: LogRow) -> None:
    """Check that the start could not be accepted, for the reason given."""
    check_decided_once(world, row)
    if row.market == Market.ON_DEMAND:
        _check_on_demand_rejected(world, row)
    else:
        check_quote(world, row)
        check_least(row)
        check_quota(world, row)
        if row.quota is None:
            _check_spot_rejected(world, row)


def _check_on_demand_rejected(world: World, row: LogRow) -> None:
    require(row, Rule.ON_DEMAND_FIRST, row.reason == Rejection.NO_CAPACITY, f"the reason is {row.reason!r}")
    for name, node in world.allowed_nodes(row):
        room = node.free
        for instance in world.spot_on(name, row.at_us):
            room = freed(room, instance, name)
        require(row, Rule.ON_DEMAND_FIRST, not fits(room, row.demand), f"{name} could have made room for it")


def _check_spot_rejected(world: World, row: LogRow) -> None:
    fitting = fitting_nodes(world, row)
    if row.reason == Rejection.NO_CAPACITY:
        require(row, Rule.SLA, not fitting, f"rejected for want of capacity, but {', '.join(fitting)} has room")
        return
    require(row, Rule.SLA, row.reason in set(Rejection), f"the reason {row.reason!r} is unknown")
    require(row, Rule.SLA, bool(fitting), f"rejected as {row.reason}, but there is no capacity either")
    require(row, Rule.SLA, row.probability is not None, f"rejected as {row.reason} without an SLA")
    if row.reason in {Rejection.BUDGET_EXHAUSTED, Rejection.SLA_UNATTAINABLE}:
        check_account(world, row)
    if row.reason == Rejection.BUDGET_EXHAUSTED:
        has_one = row.budget is not None or row.book is not None
        require(row, Rule.SLA, has_one, "rejected by its budget, but there is none")
        require(row, Rule.SLA, is_owed_rejection(row), "rejected by its budget, which could afford it")
    elif row.reason == Rejection.SLA_UNATTAINABLE:
        has_none = row.budget is None and row.book is None
        require(row, Rule.SLA, has_none, "rejected by its quote, but it rests on a budget")
        require(row, Rule.SLA, row.quoted_lifetime_us is not None, "rejected by its quote, but there is none")
        require(row, Rule.SLA, is_owed_rejection(row), "rejected by its quote, which is above its lifetime")
    elif row.reason == Rejection.TOO_FEW_WINDOWS:
        check_floor(world, row)
    elif row.reason == Rejection.NO_HISTORY:
        require(row, Rule.SLA, row.quoted_lifetime_us is None, "rejected for want of history, but there is a quote")
    else:
        require(row, Rule.SLA, row.epoch is not None, "rejected because the table is too old, but there is none")


def check_decided_once(world: World, row: LogRow) -> None:
    """Check what is asked for, and that no event decided this id before."""
    name = row.instance_id
    if name is None:
        fail(row, Rule.FOLD, "it has no instance id")
    require(row, Rule.ONCE, name not in world.decided, f"{name} was decided before")
    require(row, Rule.FOLD, row.market in set(Market), f"the market {row.market!r} is unknown")
    in_group = row.machine_count > 1
    require(row, Rule.FOLD, not in_group or row.market == Market.SPOT, "only spot instances are in groups")
    require(row, Rule.FOLD, max(row.demand) > 0 and min(row.demand) >= 0, "it asks for nothing")
    of_flavor = world.flavors.get(row.flavor or "", row.demand)  # not every log tells of flavors
    require(row, Rule.FOLD, row.demand == of_flavor, f"it asks for {row.demand}, but its flavor for {of_flavor}")
    world.decided.add(name)
    world.jobs.start(row)
    follow_placement(world, row)
    if row.eviction_policy is not None:
        follow_policy(world, row)
