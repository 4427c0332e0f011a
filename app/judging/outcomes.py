"""The outcomes of promises, judged by stratum of lifetime, by flavor and by week.

Everything is read from the folded state, so the cost does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from app.domain.strata import STRATA
from app.domain.times import to_datetime
from app.domain.weeks import begin_of_week
from app.engine.cloud import Cloud, OutcomeCounts, Section, SectionKind, plus
from app.judging.verdicts import Judgement, judge_promise, told_of_overrunning


@dataclass(frozen=True, slots=True)
class SectionStanding:
    """The instances of a section, and the verdict on the promises to them. `promised` is the mean of theirs."""

    section: Section
    counts: OutcomeCounts
    promised: float
    judgement: Judgement

    @property
    def name(self) -> str:
        """The name of the stratum or the flavor; of a week its first day."""
        if self.section.kind is not SectionKind.WEEK:
            return self.section.name
        return f"{to_datetime(begin_of_week(self.section.number)):%Y-%m-%d}"

    @property
    def ratio(self) -> float | None:
        """The share of admitted instances that was evicted so far; None if none was admitted."""
        return self.counts.evicted / self.counts.admitted if self.counts.admitted else None

    @property
    def overran_share(self) -> float | None:
        """The share of admitted instances that ran on after their declared lifetime; None if none was admitted."""
        return self.counts.overran / self.counts.admitted if self.counts.admitted else None


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The standing of each stratum by promise, of each flavor, and of each of the newest weeks.

    Every promise has all strata, the shortest lifetimes first. Flavors stand by name, weeks by time.
    """

    strata: Mapping[float, Sequence[SectionStanding]]
    flavors: Sequence[SectionStanding]
    weeks: Sequence[SectionStanding]


def outcomes_now(cloud: Cloud, at_us: int) -> Callable[[], Outcomes]:
    """Return a function that returns the outcomes as things are now, on any thread."""
    promised, counts_now = sorted(cloud.classes), cloud.outcomes_now(at_us)

    def found() -> Outcomes:
        counts = counts_now()
        strata = {one: [_of_stratum(counts, number, one) for number in range(len(STRATA))] for one in promised}
        return Outcomes(strata, _of_kind(counts, SectionKind.FLAVOR), _of_kind(counts, SectionKind.WEEK))

    return found


def largest(standings: Sequence[SectionStanding], most: int, other: str) -> list[SectionStanding]:
    """Return the sections with most admissions in their order, and all others as one that is called `other`."""
    ranked = sorted(standings, key=lambda one: -one.counts.admitted)
    told, rest = {one.section for one in ranked[:most]}, ranked[most:]
    found = [one for one in standings if one.section in told]
    if not rest:
        return found
    return [*found, standing(Section(rest[0].section.kind, other), reduce(plus, (one.counts for one in rest)))]


def standing(section: Section, counts: OutcomeCounts) -> SectionStanding:
    """Return the standing of a section with these counts."""
    promised = section.promised or (counts.promised / counts.admitted if counts.admitted else 0.0)
    judgement = judge_promise(promised, counts.evicted, counts.admitted)
    judgement = told_of_overrunning(judgement, counts.overran, counts.admitted)
    return SectionStanding(section, counts, promised, judgement)


def _of_stratum(counts: Mapping[Section, OutcomeCounts], number: int, promised: float) -> SectionStanding:
    section = Section(SectionKind.STRATUM, STRATA[number], number, promised)
    return standing(section, counts.get(section, OutcomeCounts()))


def _of_kind(counts: Mapping[Section, OutcomeCounts], kind: SectionKind) -> list[SectionStanding]:
    return [standing(section, one) for section, one in sorted(counts.items()) if section.kind is kind]
