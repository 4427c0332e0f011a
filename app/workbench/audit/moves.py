"""Rules 1 and 6 for moves: who moves runs, alone, and has room on an open node."""

from __future__ import annotations

from dataclasses import replace

from app.workbench.audit.findings import Rule, fail, require
from app.workbench.audit.world import AuditedInstance, World, fits, minus, node_of, plus
from app.workbench.logcsv import LogRow


def check_moved(world: World, row: LogRow) -> None:
    """Check a move, and let the instance have its room on the new node."""
    instance = world.running.get(row.instance_id or "")
    if instance is None:
        fail(row, Rule.FOLD, f"{row.instance_id} moves but does not run")
    if row.as_flavor is not None:
        _check_observed(world, row, instance)
        return
    start, node = instance.row, node_of(world, row)
    require(row, Rule.FOLD, start.machine_count == 1, f"{row.instance_id} is a group and moves")
    told = (row.former_node, row.demand, row.lifetime_us, row.market)
    same = told == (start.node, start.demand, start.lifetime_us, start.market)
    require(row, Rule.FOLD, same, f"it does not repeat what {row.instance_id} is, which runs on {start.node}")
    require(row, Rule.FOLD, row.node != start.node, f"{row.instance_id} runs on {row.node} already")
    require(row, Rule.FOLD, node.is_open, f"{row.node} is drained and takes no placements")
    require(row, Rule.CAPACITY, fits(node.free, start.demand), f"{row.node} is over its capacity")
    settle(world, instance, row.node or "")


def _check_observed(world: World, row: LogRow, instance: AuditedInstance) -> None:
    """Check that an on-demand instance has room where it was observed, with the flavor that it has there."""
    start, node = instance.row, node_of(world, row)
    require(row, Rule.FOLD, not instance.is_spot, f"{row.instance_id} is a spot instance and was observed")
    known = row.former_node == start.node and row.market == start.market
    require(row, Rule.FOLD, known, f"it does not say where {row.instance_id} was: on {start.node}")
    before = world.nodes[start.node or ""]
    before.free = plus(before.free, start.demand)
    require(row, Rule.CAPACITY, fits(node.free, row.demand), f"{row.node} is over its capacity")
    node.free = minus(node.free, row.demand)
    there = start._replace(node=row.node, demand=row.demand, flavor=row.flavor)
    world.running[row.instance_id or ""] = replace(instance, row=there)


def settle(world: World, instance: AuditedInstance, name: str) -> None:
    """Let a running instance, which is no group, have its room on another node."""
    before, after = world.nodes[instance.row.node or ""], world.nodes[name]
    before.free, after.free = plus(before.free, instance.row.demand), minus(after.free, instance.row.demand)
    world.running[instance.row.instance_id or ""] = replace(instance, row=instance.row._replace(node=name))
