"""The parts of a cloud's state that notices need: unconfirmed evictions and instances at risk."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.domain.events import (
    EvictionConfirmed,
    EvictionOverdue,
    EvictionRisk,
    EvictionScheduled,
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
)
from app.domain.values import Resources, RiskLevel
from app.engine.cloud.departures import Departures
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors, minus, plus
from app.engine.cloud.records import Facts, Fold, Folded, Handover, Undo

OVERDUE_MAX = 1000
"""The number of overdue evictions that a state remembers; beyond it the oldest are forgotten."""


class Handovers:
    """Evictions under a grace period that no controller has confirmed, by instance id.

    Every change and every undo concerns one of them, whatever their number.
    """

    def __init__(self, instances: Instances, flavors: Flavors) -> None:
        self.by_id: dict[str, Handover] = {}
        self._by_deadline: tuple[Handover, ...] | None = None
        self._overdue: list[tuple[int, str]] = []
        self._of_owners = Counter[str]()
        self._departures: dict[str, Departures] = {}
        self._instances, self._flavors = instances, flavors

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            EvictionScheduled: self._schedule,
            InstanceStarted: self._name_owner,
            EvictionConfirmed: self._confirm,
            EvictionOverdue: self._report,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"handovers": [*self.by_deadline()]}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        for handover in facts.handovers:
            self._put(handover.instance_id, handover)

    def by_deadline(self) -> tuple[Handover, ...]:
        """Return the hand-overs by deadline. They are sorted once after a change, however often they are read."""
        if self._by_deadline is None:
            self._by_deadline = tuple(sorted(self.by_id.values(), key=_due))
        return self._by_deadline

    def count_of(self, owner: str) -> int:
        """Return the number of hand-overs that starts of an owner made necessary."""
        return self._of_owners[owner]

    def ready_us(
        self,
        places: Sequence[str],
        flavor: str,
        room_on: Callable[[str], Resources],
        leave: tuple[int, Iterable[str]],
        now_us: int,
    ) -> int | None:
        """Return when machines of a flavor, placed on these nodes now, all have their room; None: at once.

        `room_on`: a node's free room; `leave`: until when instances that are evicted for them may go on running, and
        their ids. Evicted but unconfirmed instances occupy their room until their deadline. Everything booked on a
        node, the new machines included, must fit beside them.
        """
        deadline_us, names = leave
        leaving = [one for one in map(self._instances.running.get, names) if one]
        found = []
        for node, count in Counter(places).items():
            left = self._total((one.flavor, one.places.count(node)) for one in leaving)
            room = plus(minus(room_on(node), self._total([(flavor, count)])), left)
            found.append((self._departures.get(node) or Departures()).fits_us(room, (deadline_us, left), now_us))
        return max((one for one in found if one is not None), default=None)

    def _total(self, machines: Iterable[tuple[str, int]]) -> Resources:
        """Return what machines of these flavors and counts use."""
        total = Resources(0)
        for flavor, count in machines:
            total = plus(total, (count * one for one in self._flavors.by_name[flavor].resources))
        return total

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
            nodes=running.nodes,
        )
        return self._change(event.instance_id, handover)

    def _name_owner(self, event: InstanceStarted) -> Undo | None:
        """Note who evicted. The hand-overs precede the start that makes them necessary."""
        if event.owner is None or event.deadline_us is None:
            return None
        waiting = [self.by_id[name] for name in event.victims if name in self.by_id]
        return _together([self._change(one.instance_id, replace(one, owner=event.owner)) for one in waiting])

    def _confirm(self, event: EvictionConfirmed) -> Undo:
        return self._change(event.instance_id, None)

    def _report(self, event: EvictionOverdue) -> Undo:
        undo = [self._change(event.instance_id, replace(self.by_id[event.instance_id], is_overdue=True))]
        while len(self._overdue) > OVERDUE_MAX:
            undo.append(self._change(self._overdue[0][1], None))
        return _together(undo)

    def _change(self, instance_id: str, handover: Handover | None) -> Undo:
        old = self.by_id.get(instance_id)
        self._put(instance_id, handover)
        return lambda: self._put(instance_id, old)

    def _put(self, instance_id: str, handover: Handover | None) -> None:
        """Enter a hand-over in the place of the instance's former one."""
        self._by_deadline = None
        old = self.by_id.pop(instance_id, None)
        if old is not None:
            self._count(old, -1)
        if handover is not None:
            self.by_id[instance_id] = handover
            self._count(handover, 1)

    def _count(self, handover: Handover, sign: int) -> None:
        for node in handover.nodes or (handover.node,):
            leaving = self._departures.setdefault(node, Departures())
            leaving.add(handover.deadline_us, self._flavors.by_name[handover.flavor].resources, sign)
            if not leaving.deadlines:
                del self._departures[node]
        if handover.owner is not None:
            self._of_owners[handover.owner] += sign
            if not self._of_owners[handover.owner]:
                del self._of_owners[handover.owner]
        if handover.is_overdue and sign > 0:
            insort(self._overdue, _due(handover))
        elif handover.is_overdue:
            del self._overdue[bisect_left(self._overdue, _due(handover))]


class Risks:
    """Tells the instances which of them are at risk: those whose last notice of risk said that the risk began."""

    def __init__(self, instances: Instances) -> None:
        self._instances, self._raised = instances, instances.at_risk

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {EvictionRisk: self._tell, InstanceStopped: self._end, InstanceEvicted: self._end}

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"at_risk": sorted(self._raised)}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts, before the instances."""
        self._raised.update(facts.at_risk)

    def enter(self, moved: Folded) -> Undo:
        """Forget spot instances that have ended, after starts and stops that follow each other."""
        ended = {running.instance_id for event, running in moved if isinstance(event, InstanceStopped)} & self._raised
        self._raised.difference_update(ended)
        return lambda: self._raised.update(ended)

    def _tell(self, event: EvictionRisk) -> Undo | None:
        return self._put(event.instance_id, raised=event.level is RiskLevel.RAISED)

    def _end(self, event: InstanceStopped | InstanceEvicted) -> Undo | None:
        return self._put(event.instance_id, raised=False)

    def _put(self, instance_id: str, *, raised: bool) -> Undo | None:
        if raised == (instance_id in self._raised):
            return None
        self._instances.put_at_risk(instance_id, at_risk=raised)
        return lambda: self._instances.put_at_risk(instance_id, at_risk=not raised)


def _together(undo: Sequence[Undo]) -> Undo:
    def back() -> None:
        for one in reversed(undo):
            one()

    return back


def _due(handover: Handover) -> tuple[int, str]:
    return handover.deadline_us, handover.instance_id
