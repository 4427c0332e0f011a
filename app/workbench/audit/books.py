"""Rule 5 under the stratified guarantee: the book that a decision records follows from the lines so far.

This is written anew from docs/forecast.md, *Honest within strata*, and shares nothing with the service's own rule.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import floor, isclose
from operator import add
from typing import NamedTuple

from app.domain.budgets import AdmittedBy, Book
from app.workbench.audit.findings import Rule, require
from app.workbench.logcsv import LogRow

PARTS = 2**40
HOUR_PARTS = 2**20
ROUNDING = 1e-6
StratumSpan = tuple[int, int | None]


class BookSums(NamedTuple):
    """The figures that an entry adds to a book, or all of them: earned and evicted, by instances and by core-hours.

    `starts` and `core_hours`: how many were entered, and the core-hours that these declare. `as_borne`: earned, if all
    that stopped gave back what they had not borne. It is the same where the log tells who did. `run` and
    `run_core_hours`: starts and core-hours by the part of the lifetime that ran, of those that gave back. `was_earned`:
    earned as until decision 268, when less than a minute earned as much as a minute.
    """

    earned: float = 0.0
    evicted: int = 0
    starts: int = 0
    core_hours: float = 0.0
    earned_core_hours: float = 0.0
    evicted_core_hours: float = 0.0
    as_borne: float = 0.0
    as_borne_core_hours: float = 0.0
    run: float = 0.0
    run_core_hours: float = 0.0
    was_earned: float = 0.0
    was_earned_core_hours: float = 0.0

    def plus(self, more: BookSums) -> BookSums:
        return BookSums._make(map(add, self, more))


@dataclass(slots=True)
class Entered:
    """All that was entered under one promise since the strata became what they are, and the sums by stratum.

    A log that an evaluation wrote does not say what books count before the first of them, so both are added up.
    """

    entries: list[tuple[int, BookSums]] = field(default_factory=list)
    sums: dict[StratumSpan, BookSums] = field(default_factory=dict)

    def enter(self, lifetime_us: int, more: BookSums) -> None:
        self.entries.append((lifetime_us, more))
        for span, sums in self.sums.items():
            if holds(span, lifetime_us):
                self.sums[span] = sums.plus(more)

    def of(self, span: StratumSpan) -> BookSums:
        """Return the sums of a stratum."""
        if span not in self.sums:
            held = (more for lifetime_us, more in self.entries if holds(span, lifetime_us))
            self.sums[span] = reduce(BookSums.plus, held, BookSums())
        return self.sums[span]


def hours_of(row: LogRow, lifetime_us: int | None) -> float:
    """Return the core-hours that an instance declares with this lifetime, all members together."""
    hours = row.machine_count * row.demand.cores * (lifetime_us or 0) / 3.6e9
    return min(hours, 2.0**25)


class Earning(NamedTuple):
    """The earnings of an instance for its book, and what they were until decision 268."""

    now: float
    was: float

    def minus(self, other: Earning) -> Earning:
        return Earning(self.now - other.now, self.was - other.was)


def started(row: LogRow, earned: Earning) -> BookSums:
    """Return what a start, or what runs when the strata change, adds: `row` has its present lifetime."""
    hours = hours_of(row, row.lifetime_us)
    return of_earned(earned, hours)._replace(starts=1, core_hours=hours, run=1.0, run_core_hours=hours)


def of_earned(earned: Earning, hours: float) -> BookSums:
    """Return what more earnings of an instance of these core-hours add, or fewer of them."""
    by_hours = hours * earned.now
    return BookSums(
        earned.now,
        earned_core_hours=by_hours,
        as_borne=earned.now,
        as_borne_core_hours=by_hours,
        was_earned=earned.was,
        was_earned_core_hours=hours * earned.was,
    )


def earning_of(row: LogRow) -> Earning | None:
    """Return what a start earns for its book; None if it is entered in none."""
    if row.probability is None or row.estimated_probability is None:
        return None
    return earning(row, row.estimated_probability if row.total_risk is None else row.total_risk)


def earning(row: LogRow, risk: float) -> Earning:
    """Return what an instance earns that bears this risk, a lifetime below a minute in proportion to it."""
    lifetime_us = row.lifetime_us or 0 if row.deadline_us is None else row.deadline_us - row.at_us
    was = min(row.probability or 0.0, 4 * risk)
    return Earning(was * min(lifetime_us / 60e6, 1.0), was)


def borne_by(start: LogRow, at_us: int) -> float:
    """Return the risk that an instance has borne by a time, in equal parts over its time; see `AuditedInstance`."""
    whole = start.estimated_probability if start.total_risk is None else start.total_risk
    end_us = start.at_us + (start.lifetime_us or 0) if start.deadline_us is None else start.deadline_us
    left_us = max(end_us - at_us, 0)
    to_bear = (start.estimated_probability or 0.0) * left_us / max(start.lifetime_us or 0, 1)
    return max((whole or 0.0) - to_bear, 0.0)


def unused_at(row: LogRow, at_us: int) -> float:
    """Return the part of its lifetime that is left to an instance; `row`: its start with its present lifetime."""
    lifetime_us = row.lifetime_us or 0
    return max(row.at_us + lifetime_us - at_us, 0) / max(lifetime_us, 1)


def check_book(
    row: LogRow,
    book: Book,
    entered: Entered,
    running: Iterator[tuple[LogRow, float]],
    strata_us: StratumSpan | None,
    asked_hours: float,
    others: Iterable[Entered],
) -> None:
    """Check the figures of a recorded book, and the line that it says admits the start.

    `running`: starts as they stand in books, with their core-hours; `asked_hours`: those of this decision; `others`:
    what was entered under other promises. Until decision 265 those that bore next to nothing of this promise counted as
    risky too, until 166 those of the same promise alone, and until 259 the debts of other promises did not count.
    """
    span, lifetime_us = (book.from_us, book.below_us), row.lifetime_us or 0
    require(row, Rule.SLA, holds(span, lifetime_us), f"its book holds other lifetimes than {lifetime_us / 1e6:g} s")
    require(row, Rule.SLA, strata_us in {None, span}, f"its book is of {span}, but the strata make it {strata_us}")
    sums, there = entered.of(span), [one for one in running if holds(span, one[0].lifetime_us or 0)]
    shares = [(borne(one, row.at_us), hours) for one, hours in there if one.probability == row.probability]
    risky = _risky_as_told(row, book, there)
    earned, evicted = (sums.earned, sums.as_borne, sums.was_earned), sums.evicted
    committed = sum(floor(share * PARTS) for share, _ in shares) / PARTS
    if book.evicted_core_hours is not None:
        earned = sums.earned_core_hours, sums.as_borne_core_hours, sums.was_earned_core_hours
        committed = sum(floor(share * hours * HOUR_PARTS) for share, hours in shares) / HOUR_PARTS
        of_risky = sum(floor(hours * HOUR_PARTS) for hours in risky) / HOUR_PARTS
        told, due = (
            (book.core_hours, book.evicted_core_hours, book.risky_core_hours),
            (asked_hours, sums.evicted_core_hours, of_risky),
        )
        require(row, Rule.SLA, told == due, f"its book records {told} core-hours, but they are {due}")
        _check_mean(row, book, sums, [other.of(span) for other in others])
    require(row, Rule.SLA, book.earned in earned, f"its book records {book.earned} earned, but it is {earned[0]}")
    require(row, Rule.SLA, book.evicted == evicted, f"its book records {book.evicted} evicted, but it is {evicted}")
    require(row, Rule.SLA, book.committed == committed, f"it records {book.committed} committed, but it is {committed}")
    count = len(risky)
    require(row, Rule.SLA, book.risky == count, f"its book records {book.risky} risky instances, but there are {count}")
    _check_line(row, book, _owed(book, others))


def _check_mean(row: LogRow, book: Book, sums: BookSums, others: Sequence[BookSums]) -> None:
    """Check the mean weight that a book records: its own, or that of the stratum.

    Until decision 267 what stopped early stood in it as if it had run to its end, and until 265 a new book had none.
    """
    told, all_sums = book.mean_core_hours or 0.0, reduce(BookSums.plus, others, BookSums())
    of_all = _mean_of(all_sums.run_core_hours, all_sums.run), _mean_of(all_sums.core_hours, all_sums.starts)
    due = _mean_of(sums.run_core_hours, sums.run, of_all[0])
    before = _mean_of(sums.core_hours, sums.starts, of_all[1])
    is_due = any(isclose(told, one, rel_tol=1e-6) for one in (due, before)) or (not sums.starts and not told)
    require(row, Rule.SLA, is_due, f"its book records a mean of {told} core-hours, but that of its starts is {due}")


def _mean_of(core_hours: float, count: float, otherwise: float = 0.0) -> float:
    return max(core_hours, 0.0) / count if count > 2.0**-20 else otherwise


def _check_line(row: LogRow, book: Book, owed: float) -> None:
    """Check the line that a recorded book says admits the start. `owed`: what the stratum's other books are in debt."""
    risk = row.estimated_probability if row.total_risk is None else row.total_risk
    line, *before = _lines(book, risk or 0.0, row.probability or 0.0)
    if line is AdmittedBy.PAID and book.left < owed + ROUNDING:
        before.append(None)
    is_line = book.admitted_by in {line, *before}
    require(row, Rule.SLA, is_line, f"it says {book.admitted_by} admits it, but {line} does")


def _owed(book: Book, others: Iterable[Entered]) -> float:
    """Return the most that the stratum's other books may be in debt in all: as if all that stopped had given back."""
    sums = [other.of((book.from_us, book.below_us)) for other in others]
    if book.evicted_core_hours is not None:
        return sum(max(one.evicted_core_hours - one.as_borne_core_hours, 0.0) for one in sums)
    return sum(max(one.evicted - one.as_borne, 0.0) for one in sums)


def _risky_as_told(row: LogRow, book: Book, there: Sequence[tuple[LogRow, float]]) -> list[float]:
    """Return the core-hours of the risky ones, by the first of the three rules that agrees with what is recorded."""
    of_promise = [one for one in there if one[0].probability == row.probability]
    found = _risky(there, row.at_us, row.probability or 0.0)
    for counted in (there, of_promise):
        if book.risky == len(found):
            break
        found = _risky(counted, row.at_us)
    return found


def _risky(there: Sequence[tuple[LogRow, float]], now_us: int, asked: float = 0.0) -> list[float]:
    """Return the core-hours of those that bear more than half of what they were promised, and of what is `asked`."""
    return [hours for one, hours in there if borne(one, now_us) > max(one.probability or 0.0, asked) / 2]


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
    """Apply the rule of docs/forecast.md, *Honest within strata*, and those before it where they say otherwise.

    Until decision 286 books of less than an hour paid beside four risky instances before they had earned that, too, and
    until 265 any risk was paid for up to 3 p. Until decision 166 a book in debt bore p / 2, and a tenth of
    what it had left paid for up to 5 p. Until decision 110 a risk within the promise was admitted beside few risky
    instances only.
    """
    if risk <= promised / 2:
        return [AdmittedBy.SMALL]
    if book.evicted_core_hours is not None:
        return _lines_by_hours(book, risk, promised)
    left = book.earned - book.evicted
    few_left = max(floor(left), 0)
    was_paid = AdmittedBy.PAID if risk <= 3 * promised and left >= 0 and book.risky < max(5, few_left) else None
    is_within = risk <= (1 + promised) / 2 and book.risky < max(_unearned(book), few_left)
    paid = was_paid if is_within else None
    affords = risk <= 5 * promised and risk <= (left - book.committed) / 10 and book.risky < max(2, few_left)
    before = AdmittedBy.PAID if affords else None
    if risk > promised:
        return [paid, was_paid, before]
    return [AdmittedBy.WITHIN] if left >= 0 and book.risky < max(5, few_left) else [AdmittedBy.WITHIN, before]


def _lines_by_hours(book: Book, risk: float, promised: float) -> list[AdmittedBy | None]:
    """Apply the rule of docs/forecast.md, *A budget in core-hours*, and the one before it, to what is not small."""
    hours, left = book.core_hours or 0.0, book.earned - (book.evicted_core_hours or 0.0)
    usual, spare = book.mean_core_hours or hours, (left - book.committed) / 10
    is_heavy, beside = hours > max(2 * usual, left), (book.risky_core_hours or 0.0) + hours
    affords = risk <= spare / hours if hours else spare >= 0
    is_paid = affords and risk <= 5 * promised and beside <= max(2 * usual, left)
    before = AdmittedBy.PAID if is_paid else None
    if risk <= promised and not is_heavy:
        return [AdmittedBy.WITHIN] if left >= 0 else [AdmittedBy.WITHIN, before]
    bears = risk <= 3 * promised and left >= 0 and not is_heavy and beside <= max(5 * usual, left)
    was_paid = AdmittedBy.PAID if bears else None
    is_within = risk <= (1 + promised) / 2 and beside <= max(_unearned(book) * usual, left)
    return [was_paid if is_within else None, was_paid, before]


def _unearned(book: Book) -> int:
    """Return how many risky instances may run beside a book that has earned nothing, a paid start among them."""
    return 0 if book.below_us is not None and book.below_us <= 3_600_000_000 else 5
