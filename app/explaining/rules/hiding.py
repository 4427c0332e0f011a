"""Explanations for callers who may see the instances of one project alone: they name no instance of another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.domain.events import InstanceMoved, InstanceStarted, Recorded
from app.explaining.rules.explanations import EvictionExplained, Explanation

HIDDEN = "another-instance"
"""Stands for the id of an instance of which it is not known that the caller may see it."""
_NO_MOVES: dict[str, Any] = {"moves": ()}


def without_others(explanation: Explanation, project: str) -> Explanation:
    """Return the explanation without the ids of other instances.

    A start that evicted the instance is named if it is for the same project, which the start itself tells. Whose
    victims and moved instances are is not looked up: they are hidden whosever they are.
    """
    instance, decision = explanation.instance, explanation.instance.decision
    if isinstance(decision, InstanceStarted):
        instance = replace(instance, decision=replace(decision, victims=(HIDDEN,) * len(decision.victims)))
    eviction = explanation.eviction
    return replace(
        explanation,
        instance=instance,
        eviction=None if eviction is None else _of_one(eviction, decision.instance_id, project),
        notices=tuple(map(_without_moves, explanation.notices)),
    )


def _of_one(eviction: EvictionExplained, own: str, project: str) -> EvictionExplained:
    start, removal = eviction.start, eviction.removal
    if start is not None:
        name = start.instance_id if start.project == project else HIDDEN
        start = replace(start, instance_id=name, victims=(), allowed=(), owner=None, project=None, user=None)
    if isinstance(removal, InstanceMoved):
        removal = replace(removal, instance_id=HIDDEN)
    victims = tuple(victim for victim in eviction.victims if victim.instance_id == own)
    return replace(eviction, start=start, removal=removal, victims=victims)


def _without_moves(notice: Recorded) -> Recorded:
    """Return the notice without the moves that it proposes, which are of other instances."""
    return Recorded(notice.seq, replace(notice.event, **_NO_MOVES)) if getattr(notice.event, "moves", ()) else notice
