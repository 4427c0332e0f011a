"""The part of a cloud's state that counts the outcomes of promises, by stratum of lifetime, by flavor and by week.

Every spot instance that was promised something stands in one section of each kind. The strata are the usual ones
(`domain.strata`) whatever the policy's books go by, so that clouds and years can be compared. An extended instance
stands in the stratum of its longer lifetime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.events import InstanceEvicted, InstanceExtended, InstanceStarted, InstanceStopped
from app.domain.strata import BOUNDARIES_US, STRATA, stratum_index
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import EvictionReason, Market
from app.domain.weeks import week_of
from app.engine.cloud.instances import Instances
from app.engine.cloud.nodes import Flavors
from app.engine.cloud.records import Facts, Fold, Folded, OutcomeCounts, Running, Section, SectionKind, Undo

MOST_WEEKS = 53
"""The newest weeks are counted; older ones are forgotten."""

Sums = dict[Section, list[Any]]
"""The counts of sections while events are added, each in the order of `OutcomeCounts`."""


_ADMITTED, _PROMISED, _CORE_US = map(OutcomeCounts._fields.index, ("admitted", "promised", "core_us"))


class SectionCounts:
    """The counts of every section. It folds an event before the instances do, because it reads what ran before it."""

    def __init__(self, instances: Instances, flavors: Flavors) -> None:
        self._instances, self._flavors = instances, flavors
        self._counts: dict[Section, OutcomeCounts] = {}

    def folds(self) -> Mapping[type, Fold]:
        """Return the fold of each kind of event that concerns this part."""
        return {
            InstanceStarted: self._start,
            InstanceStopped: self._stop,
            InstanceEvicted: self._evict,
            InstanceExtended: self._extend,
        }

    def facts(self) -> Mapping[str, Any]:
        """Return the part's share of `Facts`."""
        return {"outcomes": sorted(self._counts.items())}

    def restore(self, facts: Facts) -> None:
        """Load the part from its share of the facts."""
        self._counts = dict(facts.outcomes)

    def core_hours_of(self, promised: float) -> tuple[float, float]:
        """Return the core-hours that instances with a promise declared, and those of the ones evicted within it."""
        of_class = [
            counts
            for section, counts in self._counts.items()
            if section.kind is SectionKind.STRATUM and section.promised == promised
        ]
        sums = sum(counts.core_us for counts in of_class), sum(counts.lost_core_us for counts in of_class)
        return sums[0] / HOUR_US, sums[1] / HOUR_US

    def now(self, now_us: int) -> Callable[[], dict[Section, OutcomeCounts]]:
        """Return a function that returns the counts as things are now, on any thread.

        Those that overrun now are counted among those that overran.
        """
        counts, overrunning = self._counts.copy(), _overrunning(self._instances, now_us)

        def found() -> dict[Section, OutcomeCounts]:
            for section, count in overrunning().items():
                old = counts.get(section)
                if old is not None:
                    counts[section] = old._replace(overran=old.overran + count)
            return counts

        return found

    def enter(self, moved: Folded) -> Undo | None:
        """Count starts and stops of spot instances that follow each other."""
        sums: Sums = {}
        for event, running in moved:
            if isinstance(event, InstanceStarted):
                self._begin(sums, event)
            else:
                self._end(sums, running, event.at_us)
        return self._put(sums)

    def _start(self, event: InstanceStarted) -> Undo | None:
        return None if event.market is not Market.SPOT else self._put(self._begin({}, event))

    def _stop(self, event: InstanceStopped) -> Undo | None:
        running = self._instances.running[event.instance_id]
        return self._put(self._strike(running) if event.aborted else self._end({}, running, event.at_us))

    def _strike(self, running: Running) -> Sums:
        """Take out again an instance that never ran."""
        sums: Sums = {}
        if running.probability is None:
            return sums
        core_us = self._cores(running) * (running.lifetime_us or 0)
        for section in _sections(running):
            if section in self._counts:
                self._add(sums, section, OutcomeCounts(-1, promised=-running.probability, core_us=-core_us))
        return sums

    def _begin(self, sums: Sums, event: InstanceStarted) -> Sums:
        """Add the start of a spot instance."""
        promised = event.probability if event.basis is None else event.basis.probability
        if promised is None:
            return sums
        core_us = self._cores(event) * (event.lifetime_us or 0)
        for section in sections_of(promised, event.lifetime_us, event.flavor, event.at_us):
            counts = sums.get(section) or self._opened(sums, section)
            counts[_ADMITTED] += 1
            counts[_PROMISED] += promised
            counts[_CORE_US] += core_us
        return sums

    def _end(self, sums: Sums, running: Running, at_us: int) -> Sums:
        """Add the stop of an instance that ran on after its lifetime."""
        if running.probability is not None and at_us > running.deadline_us:
            for section in _sections(running):
                self._add(sums, section, OutcomeCounts(overran=1))
        return sums

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
        sums: Sums = {}
        for section in _sections(running):
            self._add(sums, section, more)
        return self._put(sums)

    def _extend(self, event: InstanceExtended) -> Undo | None:
        """Move an instance to the stratum of its longer lifetime, with all that it declares."""
        running = self._instances.running[event.instance_id]
        if running.probability is None:
            return None
        promised, cores, former_us = running.probability, self._cores(running), running.lifetime_us or 0
        sums: Sums = {}
        later = sections_of(promised, event.lifetime_us, running.flavor, running.started_us)
        for before, after in zip(_sections(running), later, strict=True):
            if before == after:
                self._add(sums, after, OutcomeCounts(core_us=cores * (event.lifetime_us - former_us)))
            else:
                self._add(sums, before, OutcomeCounts(-1, promised=-promised, core_us=-cores * former_us))
                self._add(sums, after, OutcomeCounts(1, promised=promised, core_us=cores * event.lifetime_us))
        return self._put(sums)

    def _cores(self, one: InstanceStarted | Running) -> int:
        """Return the cores of an instance, of all members if it is a group."""
        return one.count * self._flavors.by_name[one.flavor].resources.cores

    def _opened(self, sums: Sums, section: Section) -> list[Any]:
        sums[section] = [*self._counts.get(section, OutcomeCounts())]
        return sums[section]

    def _add(self, sums: Sums, section: Section, more: OutcomeCounts) -> None:
        """Add to a section; one that is a forgotten week has nothing but starts."""
        if section in sums or section in self._counts or more.admitted:
            sums[section] = [*map(add, sums.get(section) or self._opened(sums, section), more)]

    def _put(self, sums: Sums) -> Undo | None:
        """Let these be the counts, and forget weeks where one has begun."""
        if not sums:
            return None
        changed = {section: self._counts.get(section) for section in sums}
        self._counts.update((section, OutcomeCounts(*counts)) for section, counts in sums.items())
        if None in changed.values() and any(
            old is None and section.kind is SectionKind.WEEK for section, old in changed.items()
        ):
            weeks = sorted(one for one in self._counts if one.kind is SectionKind.WEEK)
            for section in weeks[:-MOST_WEEKS]:
                changed.setdefault(section, self._counts.pop(section))
        return self._undo(changed)

    def _undo(self, changed: Mapping[Section, OutcomeCounts | None]) -> Undo:
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
    return _known_sections(promised, stratum_index(lifetime_us or 0, BOUNDARIES_US), flavor, week_of(started_us))


@lru_cache(4096)
def _known_sections(promised: float, stratum: int, flavor: str, week: int) -> tuple[Section, ...]:
    return (
        Section(SectionKind.STRATUM, STRATA[stratum], stratum, promised),
        Section(SectionKind.FLAVOR, flavor),
        Section(SectionKind.WEEK, "", week),
    )


def _sections(running: Running) -> tuple[Section, ...]:
    assert running.probability is not None
    return sections_of(running.probability, running.lifetime_us, running.flavor, running.started_us)


def _overrunning(instances: Instances, now_us: int) -> Callable[[], dict[Section, int]]:
    """Return a function that counts the promised instances that overrun, by section, on any thread."""
    columns, deadlines_us = instances.rows.columns, instances.deadlines_us
    rows = np.flatnonzero(columns.are_first & (columns.promises > 0) & (deadlines_us < now_us))
    promises, started_us, of_flavors = columns.promises[rows], columns.started_us[rows], columns.flavors[rows]
    strata = np.searchsorted(BOUNDARIES_US, deadlines_us[rows] - started_us, side="right")
    flavors = instances.rows.flavors

    def found() -> dict[Section, int]:
        sums = {
            Section(SectionKind.STRATUM, STRATA[stratum], stratum, promised): count
            for promised in np.unique(promises).tolist()
            for stratum, count in _tally(strata[promises == promised])
        }
        sums |= {Section(SectionKind.FLAVOR, flavors[flavor]): count for flavor, count in _tally(of_flavors)}
        weeks = Counter[int]()
        for day, count in _tally(started_us // DAY_US):
            weeks[week_of(day * DAY_US)] += count
        return sums | {Section(SectionKind.WEEK, "", week): count for week, count in weeks.items()}

    return found


def _tally(values: NDArray[np.signedinteger]) -> list[tuple[int, int]]:
    seen, counts = np.unique(values, return_counts=True)
    return list(zip(seen.tolist(), counts.tolist(), strict=True))
