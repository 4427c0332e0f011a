"""Explanations for callers who may see the instances of one project alone: they name no other instance."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from app.domain.events import InstanceMoved, InstanceStarted, Recorded
from app.explaining.rules.explanations import EvictionExplained, Explanation

HIDDEN = "another-instance"
"""Stands for the id of an instance that the caller may not see, whosever it is."""
_NO_MOVES: dict[str, Any] = {"moves": ()}


def without_others(explanation: Explanation) -> Explanation:
    """Return the explanation without the ids of other instances, those of the same project included."""
    instance, decision = explanation.instance, explanation.instance.decision
    if isinstance(decision, InstanceStarted):
        instance = replace(instance, decision=replace(decision, victims=(HIDDEN,) * len(decision.victims)))
    eviction = explanation.eviction
    return replace(
        explanation,
        instance=instance,
        eviction=None if eviction is None else _of_one(eviction, decision.instance_id),
        notices=tuple(map(_without_moves, explanation.notices)),
    )


def _of_one(eviction: EvictionExplained, own: str) -> EvictionExplained:
    start, removal = eviction.start, eviction.removal
    if start is not None:
        start = replace(start, instance_id=HIDDEN, victims=(), allowed=(), owner=None, project=None, user=None)
    if isinstance(removal, InstanceMoved):
        removal = replace(removal, instance_id=HIDDEN)
    victims = tuple(victim for victim in eviction.victims if victim.instance_id == own)
    return replace(eviction, start=start, removal=removal, victims=victims)


def _without_moves(notice: Recorded) -> Recorded:
    """Return the notice without the moves that it proposes, which are of other instances."""
    return Recorded(notice.seq, replace(notice.event, **_NO_MOVES)) if getattr(notice.event, "moves", ()) else notice
