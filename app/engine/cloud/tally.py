"""The part of a cloud's state that counts requests, the outcomes of each class, and the highest load so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from app.domain.events import InstanceEvicted, InstanceMoved, InstanceRejected, InstanceStarted, InstanceStopped
from app.domain.values import EvictionReason, Market, Resources
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors, minus, plus
from app.engine.cloud.records import ClassCounts, Counts, Facts, Fold, Folded, Undo


class Tally:
    """Counts since the log began, in all and by class, and the highest on-demand load.

    It folds an event before the instances do, because it reads what ran before a start or an end.
    """

    def __init__(self, instances: Instances, flavors: Flavors) -> None:
        self.counts = Counts()
        self.classes: dict[float, ClassCounts] = {}
        self.on_demand_peak = Resources(0)
        self._instances, self._flavors = instances, flavors

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceRejected: self._reject,
            InstanceEvicted: self._evict,
            InstanceStopped: self._stop,
            InstanceMoved: self._move,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        classes = sorted(self.classes.items())
        return {"counts": self.counts, "classes": classes, "on_demand_peak": self.on_demand_peak}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self.counts, self.on_demand_peak = facts.counts, facts.on_demand_peak
        self.classes |= dict(facts.classes)

    def enter(self, moved: Folded, peak: Resources) -> Undo:
        """Count starts among what follows each other; `peak` is the highest on-demand load during them."""
        before, classes = (self.counts, self.on_demand_peak), dict(self.classes)
        asked = Counter((one.market, one.probability) for event, one in moved if isinstance(event, InstanceStarted))
        for (market, probability), count in asked.items():
            self._count_starts(market, asked=count, admitted=count)
            if market is Market.SPOT:
                self._count_class(probability, admitted=count)
        self.on_demand_peak = Resources(*map(max, self.on_demand_peak, peak))
        return lambda: self._reset(*before, classes)

    def _reset(self, counts: Counts, peak: Resources, classes: dict[float, ClassCounts]) -> None:
        self.counts, self.on_demand_peak = counts, peak
        self.classes.clear()
        self.classes.update(classes)

    def _start(self, event: InstanceStarted) -> Undo:
        undo = self._as_it_is(event.probability if event.basis is None else event.basis.probability)
        self._count_starts(event.market, admitted=1)
        if event.market is Market.ON_DEMAND:
            load = plus(self._instances.on_demand, self._flavors.by_name[event.flavor].resources)
            self.on_demand_peak = Resources(*map(max, self.on_demand_peak, load))
        else:
            self._count_class(event.probability if event.basis is None else event.basis.probability, admitted=1)
        return undo

    def _reject(self, event: InstanceRejected) -> Undo:
        undo = self._as_it_is(None)
        self._count_starts(event.market, admitted=0)
        return undo

    def _evict(self, event: InstanceEvicted) -> Undo:
        running = self._instances.running[event.instance_id]
        undo = self._as_it_is(running.probability)
        if event.reason is EvictionReason.DRILL:
            self.counts = self.counts._replace(spot_drilled=self.counts.spot_drilled + 1)
            return undo
        self.counts = self.counts._replace(spot_evicted=self.counts.spot_evicted + 1)
        if event.at_us <= running.deadline_us:
            self._count_class(running.probability, evicted=1)
        return undo

    def _stop(self, event: InstanceStopped) -> Undo | None:
        """Count one that never ran as not admitted."""
        if not event.aborted:
            return None
        running = self._instances.running[event.instance_id]
        undo = self._as_it_is(running.probability)
        self._count_starts(running.market, asked=0, admitted=-1)
        self._count_class(running.probability, admitted=-1)
        return undo

    def _move(self, event: InstanceMoved) -> Undo | None:
        """Follow the load where an on-demand instance has another flavor."""
        if event.as_flavor is None:
            return None
        undo, of = self._as_it_is(None), self._flavors.by_name
        less = minus(self._instances.on_demand, of[self._instances.running[event.instance_id].flavor].resources)
        load = plus(less, of[event.as_flavor].resources)
        self.on_demand_peak = Resources(*map(max, self.on_demand_peak, load))
        return undo

    def _as_it_is(self, probability: float | None) -> Undo:
        """Return an undo that restores the present counts, and those of one class."""
        counts, peak = self.counts, self.on_demand_peak
        of_class = None if probability is None else self.classes.get(probability, ClassCounts())
        return lambda: self._put(counts, peak, probability, of_class)

    def _put(self, counts: Counts, peak: Resources, probability: float | None, of_class: ClassCounts | None) -> None:
        self.counts, self.on_demand_peak = counts, peak
        if probability is None or of_class is None:
            return
        if of_class == ClassCounts():
            self.classes.pop(probability, None)
        else:
            self.classes[probability] = of_class

    def _count_starts(self, market: Market, *, asked: int = 1, admitted: int) -> None:
        on_demand_asked, on_demand_started, spot_asked, spot_started, *ended = self.counts
        if market is Market.SPOT:
            self.counts = Counts(
                on_demand_asked, on_demand_started, spot_asked + asked, spot_started + admitted, *ended
            )
        else:
            self.counts = Counts(
                on_demand_asked + asked, on_demand_started + admitted, spot_asked, spot_started, *ended
            )

    def _count_class(self, probability: float | None, *, admitted: int = 0, evicted: int = 0) -> None:
        if probability is not None:
            old = self.classes.get(probability, ClassCounts())
            self.classes[probability] = ClassCounts(old.admitted + admitted, old.evicted + evicted)
