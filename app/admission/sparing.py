"""Moves that would spare running instances at risk, as notices of risk propose them. Pure.

An instance is spared if the next on-demand start that would evict it evicts nobody, because all whom it would evict run
on other nodes by then (engine.moving).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from app.domain.values import MovePlan, NodeStatus, ProposedMove, ToldRisk
from app.engine.cloud import MINUTE_US, Cloud, Proposal
from app.engine.moving import MOST_MOVED

TOLD_AGAIN_US = 10 * MINUTE_US
"""The wait before other moves than those told before are told: plans change with every start and stop."""


def moves_sparing(proposals: Iterable[Proposal]) -> dict[str, MovePlan]:
    """Return the moves that would spare each instance, which are MOST_MOVED at most; others are left out.

    Each proposal reckons with those before it. So the moves of an instance are those of the first proposal that
    concerns it and of all before that, and what is told of several instances can be carried out together.
    """
    found: dict[str, MovePlan] = {}
    moves: MovePlan = ()
    for proposal in proposals:
        moves += proposal.moves
        if len(moves) > MOST_MOVED:
            break
        for move in proposal.moves:
            found.setdefault(move.instance_id, moves)
    return found


def can_begin(cloud: Cloud, moves: Sequence[ProposedMove]) -> bool:
    """Return True if all who are to move run where the moves begin, and go to nodes that take placements."""
    places: dict[str, str] = {}
    for move in moves:
        running, target = cloud.running.get(move.instance_id), cloud.nodes.get(move.to)
        if running is None or running.count > 1 or target is None or target.status is not NodeStatus.OPEN:
            return False
        if places.get(move.instance_id, running.node) != move.node:
            return False
        places[move.instance_id] = move.to
    return True


def is_worth_telling(moves: MovePlan, before: ToldRisk | None, at_us: int) -> bool:
    """Return True if moves are to be told of an instance at risk. Where it is not known what was, nothing is told."""
    if not moves or before is None:
        return False
    return not before.moves or (moves != before.moves and at_us - before.at_us >= TOLD_AGAIN_US)
