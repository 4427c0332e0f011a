"""The part of a cloud's state that counts the outcomes of promises, by stratum of lifetime, by flavor and by week.

Every spot instance that was promised something stands in one section of each kind. The strata are the usual ones
(`domain.strata`) whatever the policy's books go by, so that clouds and years can be compared. An extended instance
stands in the stratum of its longer lifetime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import add
from typing import Any

from app.domain.events import InstanceEvicted, InstanceExtended, InstanceStarted, InstanceStopped
from app.domain.strata import BOUNDARIES_US, STRATA, stratum_index
from app.domain.values import EvictionReason, Market
from app.domain.weeks import week_of
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors
from app.engine.cloud.records import Facts, Fold, OutcomeCounts, Running, Section, SectionKind, Undo

MOST_WEEKS = 53
"""The newest weeks are counted; older ones are forgotten."""

FormerCounts = dict[Section, OutcomeCounts | None]
"""The former counts of the sections that an event concerns."""


class SectionCounts:
    """The counts of every section. It folds an event before the instances do, because it reads what ran before it."""

    def __init__(self, instances: Instances, flavors: Flavors) -> None:
        self._instances, self._flavors = instances, flavors
        self._counts: dict[Section, OutcomeCounts] = {}

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: lambda event: self.enter([event]),
            InstanceStopped: lambda event: self.enter([event]),
            InstanceEvicted: self._evict,
            InstanceExtended: self._extend,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"outcomes": sorted(self._counts.items())}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self._counts = dict(facts.outcomes)

    def now(self, now_us: int) -> Callable[[], dict[Section, OutcomeCounts]]:
        """Return a function that returns the counts as things are now, on any thread.

        Those that overrun now are counted among those that overran.
        """
        counts, overrunning = self._counts.copy(), self._instances.overrunning_now(now_us)

        def found() -> dict[Section, OutcomeCounts]:
            for section, count in overrunning().items():
                old = counts.get(section)
                if old is not None:
                    counts[section] = old._replace(overran=old.overran + count)
            return counts

        return found

    def enter(self, run: Iterable[InstanceStarted | InstanceStopped]) -> Undo:
        """Count starts and stops that follow each other."""
        changed: FormerCounts = {}
        begun: dict[str, InstanceStarted] = {}
        for event in run:
            if isinstance(event, InstanceStarted):
                begun[event.instance_id] = event
                self._start(changed, event)
            elif event.instance_id in begun:
                start = begun.pop(event.instance_id)
                self._stop(changed, _promise(start), start.at_us, start.lifetime_us, start.flavor, event.at_us)
            else:
                one = self._instances.running[event.instance_id]
                self._stop(changed, one.probability, one.started_us, one.lifetime_us, one.flavor, event.at_us)
        self._forget_weeks(changed)
        return self._undo(changed)

    def _start(self, changed: FormerCounts, event: InstanceStarted) -> None:
        promised = _promise(event)
        if event.market is not Market.SPOT or promised is None:
            return
        core_us = self._cores(event) * (event.lifetime_us or 0)
        more = OutcomeCounts(admitted=1, promised=promised, core_us=core_us)
        for section in sections_of(promised, event.lifetime_us, event.flavor, event.at_us):
            self._add(changed, section, more)

    def _stop(
        self,
        changed: FormerCounts,
        promised: float | None,
        started_us: int,
        lifetime_us: int | None,
        flavor: str,
        at_us: int,
    ) -> None:
        if promised is None or lifetime_us is None or at_us <= started_us + lifetime_us:
            return
        for section in sections_of(promised, lifetime_us, flavor, started_us):
            self._add(changed, section, OutcomeCounts(overran=1))

    def _evict(self, event: InstanceEvicted) -> Undo | None:
        running = self._instances.running[event.instance_id]
        if running.probability is None:
            return None
        overran, is_drill = event.at_us > running.deadline_us, event.reason is EvictionReason.DRILL
        core_us = self._cores(running) * (running.lifetime_us or 0)
        if overran:
            more = OutcomeCounts(overran=1, overrun_evicted=int(not is_drill))
        else:
            more = OutcomeCounts() if is_drill else OutcomeCounts(evicted=1, lost_core_us=core_us)
        changed: FormerCounts = {}
        for section in _sections(running):
            self._add(changed, section, more)
        return self._undo(changed)

    def _extend(self, event: InstanceExtended) -> Undo | None:
        """Move an instance to the stratum of its longer lifetime, with all that it declares."""
        running = self._instances.running[event.instance_id]
        if running.probability is None:
            return None
        promised, cores, former_us = running.probability, self._cores(running), running.lifetime_us or 0
        changed: FormerCounts = {}
        later = sections_of(promised, event.lifetime_us, running.flavor, running.started_us)
        for before, after in zip(_sections(running), later, strict=True):
            if before == after:
                self._add(changed, after, OutcomeCounts(core_us=cores * (event.lifetime_us - former_us)))
            else:
                self._add(changed, before, OutcomeCounts(-1, promised=-promised, core_us=-cores * former_us))
                self._add(changed, after, OutcomeCounts(1, promised=promised, core_us=cores * event.lifetime_us))
        return self._undo(changed)

    def _cores(self, one: InstanceStarted | Running) -> int:
        """Return the cores of an instance, of all members if it is a group."""
        return one.count * self._flavors.by_name[one.flavor].resources.cores

    def _add(self, changed: FormerCounts, section: Section, more: OutcomeCounts) -> None:
        """Add to a section; one that is a forgotten week has nothing but starts."""
        old = self._counts.get(section)
        if old is None and not more.admitted:
            return
        changed.setdefault(section, old)
        self._counts[section] = more if old is None else plus(old, more)

    def _forget_weeks(self, changed: FormerCounts) -> None:
        """Keep the newest weeks, where one has begun."""
        if not any(old is None and section.kind is SectionKind.WEEK for section, old in changed.items()):
            return
        weeks = sorted(one for one in self._counts if one.kind is SectionKind.WEEK)
        for section in weeks[:-MOST_WEEKS]:
            changed.setdefault(section, self._counts.pop(section))

    def _undo(self, changed: FormerCounts) -> Undo:
        def undo() -> None:
            for section, old in changed.items():
                if old is None:
                    self._counts.pop(section, None)
                else:
                    self._counts[section] = old

        return undo


def plus(a: OutcomeCounts, b: OutcomeCounts) -> OutcomeCounts:
    """Return the sum of two counts."""
    return OutcomeCounts._make(map(add, a, b))


def sections_of(promised: float, lifetime_us: int | None, flavor: str, started_us: int) -> tuple[Section, ...]:
    """Return the sections that an instance stands in: one of each kind."""
    stratum = stratum_index(lifetime_us or 0, BOUNDARIES_US)
    return (
        Section(SectionKind.STRATUM, STRATA[stratum], stratum, promised),
        Section(SectionKind.FLAVOR, flavor),
        Section(SectionKind.WEEK, "", week_of(started_us)),
    )


def _sections(running: Running) -> tuple[Section, ...]:
    assert running.probability is not None
    return sections_of(running.probability, running.lifetime_us, running.flavor, running.started_us)


def _promise(event: InstanceStarted) -> float | None:
    return event.probability if event.basis is None else event.basis.probability
