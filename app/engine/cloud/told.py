"""The parts of a cloud's state that notices need: unconfirmed evictions and instances at risk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from app.domain.events import (
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    InstanceEvicted,
    InstanceStopped,
)
from app.domain.values import RiskLevel
from app.engine.cloud.instances import Instances
from app.engine.cloud.records import Facts, Fold, Handover, Undo

OVERDUE_MAX = 1000
"""The number of overdue evictions that a state remembers; beyond it the oldest are forgotten."""


class Handovers:
    """Evictions under a grace period that no controller has confirmed, by instance id."""

    def __init__(self, instances: Instances) -> None:
        self.by_id: dict[str, Handover] = {}
        self._instances = instances

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {EvictionScheduled: self._schedule, EvictionConfirmed: self._confirm, EvictionOverdue: self._overdue}

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"handovers": self.by_deadline()}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.by_id = {handover.instance_id: handover for handover in facts.handovers}

    def by_deadline(self) -> list[Handover]:
        """Return the hand-overs by deadline."""
        return sorted(self.by_id.values(), key=_due)

    def _schedule(self, event: EvictionScheduled) -> Undo:
        running = self._instances.running[event.instance_id]
        handover = Handover(
            event.instance_id,
            running.node,
            running.flavor,
            event.reason,
            event.cause_seq,
            event.at_us,
            event.deadline_us,
        )
        return self._put({**self.by_id, event.instance_id: handover})

    def _confirm(self, event: EvictionConfirmed) -> Undo:
        return self._put({name: one for name, one in self.by_id.items() if name != event.instance_id})

    def _overdue(self, event: EvictionOverdue) -> Undo:
        changed = dict(self.by_id)
        changed[event.instance_id] = replace(changed[event.instance_id], is_overdue=True)
        overdue = sorted((one for one in changed.values() if one.is_overdue), key=_due)
        for given_up in overdue[: max(0, len(overdue) - OVERDUE_MAX)]:
            del changed[given_up.instance_id]
        return self._put(changed)

    def _put(self, handovers: dict[str, Handover]) -> Undo:
        old, self.by_id = self.by_id, handovers
        return lambda: setattr(self, "by_id", old)


class Risks:
    """The instances whose last notice of risk said that the risk began."""

    def __init__(self) -> None:
        self.raised: set[str] = set()

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {EvictionRisk: self._tell, InstanceStopped: self._end, InstanceEvicted: self._end}

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"at_risk": sorted(self.raised)}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.raised |= set(facts.at_risk)

    def end(self, instance_ids: Iterable[str]) -> Undo:
        """Forget instances that have ended."""
        ended = self.raised.intersection(instance_ids)
        self.raised -= ended
        return lambda: self.raised.update(ended)

    def _tell(self, event: EvictionRisk) -> Undo | None:
        return self._put(event.instance_id, raised=event.level is RiskLevel.RAISED)

    def _end(self, event: InstanceStopped | InstanceEvicted) -> Undo | None:
        return self._put(event.instance_id, raised=False)

    def _put(self, instance_id: str, *, raised: bool) -> Undo | None:
        if raised == (instance_id in self.raised):
            return None
        change, back = self.raised.add, self.raised.discard
        if not raised:
            change, back = back, change
        change(instance_id)
        return lambda: back(instance_id)


def _due(handover: Handover) -> tuple[int, str]:
    return handover.deadline_us, handover.instance_id
