"""Moves in place of evictions, in plain Python: every node is looked at, and every slot counted, anew for each step."""

from __future__ import annotations

from collections.abc import Mapping

from oracles.engine import NaiveCluster, NaiveInstance, NaiveNode

Leaving = Mapping[str, tuple[int, ...]]
"""The room that evicted instances may still use, by node."""


def naive_proposals(
    naive: NaiveCluster, flavors: Mapping[str, tuple[int, ...]], leaving: Leaving, now_us: int
) -> list[tuple[str, str, tuple[tuple[str, str, str], ...]]]:
    """Return what `Cloud.proposals_now` promises. The instances of the cluster are moved."""
    found = []
    for flavor in sorted(flavors, key=lambda name: flavors[name], reverse=True):
        moves = _moves_for(naive, flavors[flavor], flavors, leaving, now_us)
        if moves:
            found.append((flavor, moves[0][1], tuple(moves)))
    return found


def _moves_for(
    naive: NaiveCluster,
    demand: tuple[int, ...],
    flavors: Mapping[str, tuple[int, ...]],
    leaving: Leaving,
    now_us: int,
) -> list[tuple[str, str, str]]:
    having = [size for size in flavors.values() if naive.slots(size)]
    plan = None if naive.slots(demand) else naive.plan_yjf(demand, now_us)
    node, victims = plan or (None, [])
    if node is None or any(one.count > 1 for one in victims) or all(_has_no_promise(one, now_us) for one in victims):
        return []
    moved: list[tuple[NaiveInstance, NaiveNode]] = []
    for victim in victims:
        there = [one for one in naive.nodes if one is not node and _has_room(naive, one, victim.demand, leaving)]
        room = {one.name: naive.room_on(one, victim.demand) for one in there}
        keeping = [one for one in there if _keeps(naive, victim, one, having)]
        if keeping:
            to = min(keeping, key=lambda one: (room[one.name], naive.nodes.index(one)))
            moved.append((victim, to))
            victim.node = to
    if len(moved) == len(victims):
        return [(victim.name, node.name, to.name) for victim, to in moved]
    for victim, _ in moved:
        victim.node = node
    return []


def _has_no_promise(victim: NaiveInstance, now_us: int) -> bool:
    return victim.goes_first or victim.overruns(now_us)


def _keeps(naive: NaiveCluster, victim: NaiveInstance, to: NaiveNode, having: list[tuple[int, ...]]) -> bool:
    """Return True if all that have room still have some with the victim there."""
    former, victim.node = victim.node, to
    keeps = all(naive.slots(size) for size in having)
    victim.node = former
    return keeps


def _has_room(naive: NaiveCluster, node: NaiveNode, demand: tuple[int, ...], leaving: Leaving) -> bool:
    more = leaving.get(node.name, (0,) * len(demand))
    return node.is_open and naive.holds(node, naive.on(node), tuple(a + b for a, b in zip(demand, more, strict=True)))
