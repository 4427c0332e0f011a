"""The choice of victims, computed anew from the rules of docs/architecture.md."""

from __future__ import annotations

from collections.abc import Callable

from app.domain.values import EvictionPolicy, Resources
from app.workbench.audit.world import AuditedInstance, World, fits, freed, held, ids_of
from app.workbench.logcsv import LogRow


def plan_victims(world: World, cause: LogRow) -> tuple[str | None, set[str]]:
    """Return the node to clear for a start that does not fit, and its victims."""
    if world.policy is EvictionPolicy.YJF_GLOBAL:
        return _plan_global(world, cause)
    return _plan(world, cause, lambda name: world.spot_on(name, cause.at_us))


def plan_displacement(world: World, cause: LogRow) -> tuple[str | None, set[str]]:
    """Return the node to clear of overrunning instances for a spot start that does not fit, and its victims."""
    now_us = cause.at_us
    return _plan(world, cause, lambda name: [one for one in world.spot_on(name, now_us) if one.overruns(now_us)])


def plan_clearing(world: World, cause: LogRow, room: list[int], demand: Resources) -> set[str]:
    """Return whom a node must lose for a demand; `room`: what it has free before. None if it fits, or cannot."""
    if fits(room, demand):
        return set()
    return ids_of(_clear(cause.node or "", room, world.spot_on(cause.node or "", cause.at_us), demand))


def _plan(
    world: World, cause: LogRow, candidates: Callable[[str], list[AuditedInstance]]
) -> tuple[str | None, set[str]]:
    plans = []
    for order, (name, node) in enumerate(world.allowed_nodes(cause)):
        victims = _clear(name, node.free, candidates(name), cause.demand)
        if victims:
            oldest = min(victim.youth(cause.at_us) for victim in victims)
            machines = sum(victim.row.machine_count for victim in victims)
            plans.append(((oldest, -machines, -order), name, victims))
    if not plans:
        return None, set()
    _, name, victims = max(plans, key=lambda plan: plan[0])
    return name, ids_of(victims)


def _clear(node: str, free: list[int], spot: list[AuditedInstance], demand: Resources) -> list[AuditedInstance]:
    """Return the shortest youngest-first run that makes room, without those (oldest tried first) that may stay."""
    room, run = free, []
    for instance in spot:
        room = freed(room, instance, node)
        run.append(instance)
        if fits(room, demand):
            break
    else:
        return []
    for instance in reversed(list(run)):
        without = held(room, instance, node)
        if fits(without, demand):
            room = without
            run.remove(instance)
    return run


def _plan_global(world: World, cause: LogRow) -> tuple[str | None, set[str]]:
    """Evict the cloud's youngest instances one by one until some node has room (the rule of the papers)."""
    rooms = {name: node.free for name, node in world.allowed_nodes(cause)}
    order = {name: place for place, name in enumerate(rooms)}
    spot = {instance.born: instance for name in rooms for instance in world.spot_on(name, cause.at_us)}
    victims = []
    for instance in sorted(spot.values(), key=lambda i: i.youth(cause.at_us), reverse=True):
        victims.append(instance)
        for name in sorted(rooms.keys() & instance.row.places, key=order.__getitem__):
            rooms[name] = freed(rooms[name], instance, name)
            if fits(rooms[name], cause.demand):
                return name, ids_of(victims)
    return None, set()
