"""Nodes and policies: rule 6 for the events that change them, rule 2 for a node that goes."""

from __future__ import annotations

from app.domain.values import Guarantee
from app.workbench.audit.findings import Rule, require
from app.workbench.audit.world import (
    Limits,
    World,
    add_node,
    follow_placement,
    follow_policy,
    follow_strata,
    ids_of,
    node_of,
    resize,
)
from app.workbench.logcsv import LogRow
from app.workbench.policylines import policy_fault


def check_node_added(world: World, row: LogRow) -> None:
    name = row.node or ""
    require(row, Rule.FOLD, bool(name) and name not in world.nodes, f"node {row.node!r} is there already")
    add_node(world, name, row.demand)


def check_node_drained(world: World, row: LogRow) -> None:
    node_of(world, row).is_open = False


def check_node_opened(world: World, row: LogRow) -> None:
    node_of(world, row).is_open = True


def check_node_removed(world: World, row: LogRow) -> None:
    """Check that nothing runs on the node, and remove it."""
    node_of(world, row)
    left = [i for i in world.running.values() if row.node in i.row.places]
    on_demand = [i for i in left if not i.is_spot]
    require(row, Rule.ON_DEMAND_STAYS, not on_demand, f"{ids_of(on_demand)} are on-demand and run on it")
    require(row, Rule.CAPACITY, not left, f"{ids_of(left)} run on a node that is gone")
    del world.nodes[row.node or ""]


def check_node_resized(world: World, row: LogRow) -> None:
    """Check that what runs on the node fits in its new capacity."""
    node = node_of(world, row)
    require(row, Rule.FOLD, row.demand != node.capacity, f"{row.node} has that capacity already")
    resize(world, row.node or "", row.demand)
    require(row, Rule.CAPACITY, min(node.free) >= 0, f"{row.node} is over its new capacity")


def check_policy(world: World, row: LogRow) -> None:
    """Take over a new policy: the guarantee in force, the grace period, the choice of nodes and victims."""
    fault = policy_fault(row)
    require(row, Rule.FOLD, fault is None, f"{fault}")
    known = row.guarantee is None or row.guarantee in set(Guarantee)
    require(row, Rule.FOLD, known, f"the guarantee {row.guarantee!r} is unknown")
    is_told = row.guarantee is not None or world.guarantee is None
    require(row, Rule.FOLD, is_told, "it tells no guarantee, but the policy before it did")
    world.guarantee = None if row.guarantee is None else Guarantee(row.guarantee)
    world.sla = None if world.guarantee is None else world.promises
    world.grace_us, world.min_windows = row.grace_us, row.min_windows
    world.gives_back = bool(row.gives_back)
    world.limits = Limits(
        row.owner_cores,
        row.owner_share,
        row.overrun_share,
        row.overrunning_cores,
        displaces=bool(row.displaces_overrunning),
    )
    follow_placement(world, row)
    follow_strata(world, row)
    if row.eviction_policy is not None:
        follow_policy(world, row)


def check_flavor(world: World, row: LogRow) -> None:
    """Keep what a flavor asks for: starts carry resource vectors of their own, which are those of their flavors."""
    known = world.flavors.setdefault(row.flavor or "", row.demand)
    require(row, Rule.FOLD, known == row.demand, f"the flavor {row.flavor!r} asked for something else before")
