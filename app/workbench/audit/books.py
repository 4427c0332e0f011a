"""Rule 5 under the stratified guarantee: the book that a decision records follows from the lines so far.

This is written anew from docs/forecast.md, *Honest within strata*, and shares nothing with the service's own rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import floor

from app.domain.values import AdmittedBy, Book
from app.workbench.audit.findings import Rule, require
from app.workbench.logcsv import LogRow

PARTS = 2**40
StratumSpan = tuple[int, int | None]


@dataclass(slots=True)
class Entered:
    """The starts and evictions under one promise since the strata became what they are, and their sums by stratum."""

    earned: list[tuple[int, float]] = field(default_factory=list)
    evicted: list[int] = field(default_factory=list)
    sums: dict[StratumSpan, list[float]] = field(default_factory=dict)

    def enter(self, lifetime_us: int, earned: float) -> None:
        self.earned.append((lifetime_us, earned))
        for span, sums in self.sums.items():
            sums[0] += earned if holds(span, lifetime_us) else 0.0

    def evict(self, lifetime_us: int) -> None:
        self.evicted.append(lifetime_us)
        for span, sums in self.sums.items():
            sums[1] += holds(span, lifetime_us)

    def of(self, span: StratumSpan) -> tuple[float, int]:
        """Return what a stratum has earned, and its evictions."""
        if span not in self.sums:
            earned = sum((share for lifetime_us, share in self.earned if holds(span, lifetime_us)), 0.0)
            self.sums[span] = [earned, sum(holds(span, lifetime_us) for lifetime_us in self.evicted)]
        return self.sums[span][0], int(self.sums[span][1])


def earning_of(row: LogRow) -> float | None:
    """Return what a start earns for its book; None if it is entered in none."""
    if row.probability is None or row.estimated_probability is None:
        return None
    return min(row.probability, 4 * (row.estimated_probability if row.total_risk is None else row.total_risk))


def borne_by(start: LogRow, at_us: int) -> float:
    """Return the risk that an instance has borne by a time, in equal parts over its time; see `AuditedInstance`."""
    whole = start.estimated_probability if start.total_risk is None else start.total_risk
    end_us = start.at_us + (start.lifetime_us or 0) if start.deadline_us is None else start.deadline_us
    left_us = max(end_us - at_us, 0)
    to_bear = (start.estimated_probability or 0.0) * left_us / max(start.lifetime_us or 0, 1)
    return max((whole or 0.0) - to_bear, 0.0)


def check_book(
    row: LogRow, book: Book, entered: Entered, running: Iterator[LogRow], strata_us: StratumSpan | None
) -> None:
    """Check the figures of a recorded book, and the line that it says admits the start."""
    span, lifetime_us = (book.from_us, book.below_us), row.lifetime_us or 0
    require(row, Rule.SLA, holds(span, lifetime_us), f"its book holds other lifetimes than {lifetime_us / 1e6:g} s")
    require(row, Rule.SLA, strata_us in {None, span}, f"its book is of {span}, but the strata make it {strata_us}")
    earned, evicted = entered.of(span)
    require(row, Rule.SLA, book.earned == earned, f"its book records {book.earned} earned, but it is {earned}")
    require(row, Rule.SLA, book.evicted == evicted, f"its book records {book.evicted} evicted, but it is {evicted}")
    shares = [borne(one, row.at_us) for one in running if holds(span, one.lifetime_us or 0)]
    committed = sum(floor(share * PARTS) for share in shares) / PARTS
    require(row, Rule.SLA, book.committed == committed, f"it records {book.committed} committed, but it is {committed}")
    risky = sum(share > (row.probability or 0.0) / 2 for share in shares)
    require(row, Rule.SLA, book.risky == risky, f"its book records {book.risky} risky instances, but there are {risky}")
    risk = row.estimated_probability if row.total_risk is None else row.total_risk
    line, *before = _lines(book, risk or 0.0, row.probability or 0.0)
    is_line = book.admitted_by in {line, *before}
    require(row, Rule.SLA, is_line, f"it says {book.admitted_by} admits it, but {line} does")


def span_at(strata_us: tuple[int, ...], lifetime_us: int) -> StratumSpan:
    """Return the stratum of a lifetime."""
    edges, at = [0, *strata_us], bisect_right(strata_us, lifetime_us)
    return edges[at], strata_us[at] if at < len(strata_us) else None


def holds(span: StratumSpan, lifetime_us: int) -> bool:
    """Return True if a lifetime stands in the stratum."""
    return span[0] <= lifetime_us and (span[1] is None or lifetime_us < span[1])


def borne(start: LogRow, now_us: int) -> float:
    """Return the risk of the rest of a running instance's declared lifetime."""
    lifetime_us, risk = start.lifetime_us or 0, start.estimated_probability or 0.0
    left_us = (start.at_us + lifetime_us if start.deadline_us is None else start.deadline_us) - now_us
    return risk / max(lifetime_us, 1) * left_us if left_us > 0 else 0.0


def _lines(book: Book, risk: float, promised: float) -> list[AdmittedBy | None]:
    """Apply the rule of docs/forecast.md, *Honest within strata*, and the rule before it if that says otherwise.

    Until decision 110 a risk within the promise was admitted beside few risky instances only.
    """
    left = book.earned - book.evicted
    few_left = max(floor(left), 0)
    if risk <= promised / 2:
        return [AdmittedBy.SMALL]
    affords = risk <= 5 * promised and risk <= (left - book.committed) / 10 and book.risky < max(2, few_left)
    paid = AdmittedBy.PAID if affords else None
    if risk > (promised / 2 if left < 0 else promised):
        return [paid]
    return [AdmittedBy.WITHIN] if book.risky < max(5, few_left) else [AdmittedBy.WITHIN, paid]
