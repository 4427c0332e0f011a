"""The books of the strata in plain Python: dictionaries that are walked at each decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor
from operator import itemgetter

from app.domain.budgets import BudgetUnit
from app.domain.events import (
    CloudCreated,
    Event,
    FlavorAdded,
    InstanceEvicted,
    InstanceStarted,
    InstanceStopped,
    PolicyChanged,
)
from app.domain.values import EvictionReason, Market

PARTS = 2**40
HOUR_PARTS = 2**20


@dataclass
class Charge:
    """A running instance as its book knows it."""

    risk: float
    lifetime_us: int
    deadline_us: int
    hours: float
    promised: float = 0.0

    def unused(self, now_us: int) -> float:
        """Return, below zero, what its start earned beyond what it has borne by now."""
        to_bear = self.risk * max(self.deadline_us - now_us, 0) / max(self.lifetime_us, 1)
        borne = max(self.risk - to_bear, 0.0)
        return self.earning(borne) - self.earning(self.risk)

    def earning(self, risk: float) -> float:
        return min(self.promised, 4 * risk) * min(self.lifetime_us / 60_000_000, 1.0)

    def left_part(self, now_us: int) -> float:
        return max(self.deadline_us - now_us, 0) / max(self.lifetime_us, 1)

    def left_at(self, now_us: int) -> float:
        left_us = self.deadline_us - now_us
        return self.risk / max(self.lifetime_us, 1) * left_us if left_us > 0 else 0.0


@dataclass
class PlainBook:
    earned: float = 0.0
    evicted: int = 0
    running: dict[str, Charge] = field(default_factory=dict)
    entered: list[tuple[float, float]] = field(default_factory=list)
    """Starts and core-hours that were entered; below zero, the parts that stopped early did not run."""
    earned_hours: float = 0.0
    evicted_hours: float = 0.0


class PlainBooks:
    """Folds every event of a log; one book for each promise and stratum."""

    def __init__(self) -> None:
        self.boundaries_us: tuple[int, ...] = ()
        self.books: dict[tuple[float, int], PlainBook] = {}
        self.starts: dict[str, InstanceStarted] = {}
        self.unit, self.gives_back = BudgetUnit.INSTANCES, False
        self.cores: dict[str, int] = {}

    def fold(self, event: Event) -> None:
        if isinstance(event, CloudCreated | PolicyChanged):
            self.follow(event.policy.strata_us, event.policy.budget)
            self.gives_back = event.policy.gives_back
        elif isinstance(event, FlavorAdded):
            self.cores[event.flavor] = event.demand.cores
        elif isinstance(event, InstanceStarted) and event.market is Market.SPOT:
            self.starts[event.instance_id] = event
            self.enter(event)
        elif isinstance(event, InstanceStopped | InstanceEvicted) and event.instance_id in self.starts:
            book = self.book_of(self.starts.pop(event.instance_id))
            charge = book.running.pop(event.instance_id, None) if book is not None else None
            if charge is None:
                return
            if isinstance(event, InstanceStopped):
                self.stop(book, charge, event.at_us)
            elif event.reason is not EvictionReason.DRILL and event.at_us <= charge.deadline_us:
                book.evicted += 1
                book.evicted_hours += charge.hours

    def stop(self, book: PlainBook, charge: Charge, at_us: int) -> None:
        if self.gives_back:
            unused = charge.unused(at_us)
            book.earned += unused
            book.earned_hours += charge.hours * unused
            left = charge.left_part(at_us)
            book.entered.append((-left, -left * charge.hours))

    def follow(self, boundaries_us: tuple[int, ...], unit: BudgetUnit) -> None:
        if (boundaries_us, unit) != (self.boundaries_us, self.unit):
            self.boundaries_us, self.unit, self.books = boundaries_us, unit, {}
            for event in self.starts.values():
                self.enter(event)

    def enter(self, event: InstanceStarted) -> None:
        book, lifetime_us = self.book_of(event), event.lifetime_us or 0
        if book is not None:
            risk = event.basis.estimated_probability
            hours = event.count * self.cores[event.flavor] * lifetime_us / 3_600_000_000
            charge = Charge(risk, lifetime_us, event.at_us + lifetime_us, hours, event.basis.probability)
            book.earned += charge.earning(risk)
            book.earned_hours += hours * charge.earning(risk)
            book.entered.append((1.0, hours))
            book.running[event.instance_id] = charge

    def book_of(self, event: InstanceStarted) -> PlainBook | None:
        basis = event.basis
        if basis is None or basis.probability is None or basis.estimated_probability is None:
            return None
        return self.book(basis.probability, event.lifetime_us or 0)

    def book(self, probability: float, lifetime_us: int) -> PlainBook:
        stratum = sum(lifetime_us >= one for one in self.boundaries_us)
        return self.books.setdefault((probability, stratum), PlainBook())

    def risky_hours(self, asked: float, lifetime_us: int, now_us: int) -> list[float]:
        """The core-hours of the stratum's that bear more than half of what they were promised, and of what is asked."""
        stratum = sum(lifetime_us >= one for one in self.boundaries_us)
        return [
            one.hours
            for (probability, at), book in self.books.items()
            if at == stratum
            for one in book.running.values()
            if one.left_at(now_us) > max(probability, asked) / 2
        ]

    def standing(self, probability: float, lifetime_us: int, now_us: int) -> Sequence[float]:
        """Earned, evicted, committed and the number of risky ones, of the book that a start would be entered in."""
        book = self.book(probability, lifetime_us)
        charges = [one.left_at(now_us) for one in book.running.values()]
        committed = sum(floor(one * PARTS) for one in charges) / PARTS
        return book.earned, book.evicted, committed, len(self.risky_hours(probability, lifetime_us, now_us))

    def hours_standing(self, probability: float, lifetime_us: int, now_us: int) -> Sequence[float | None]:
        """Of the same book, in core-hours: earned, committed; the mean entered; those evicted, and of risky ones."""
        book, stratum = self.book(probability, lifetime_us), sum(lifetime_us >= one for one in self.boundaries_us)
        of_stratum = [one for (_, at), one in sorted(self.books.items(), key=itemgetter(0)) if at == stratum]
        lefts = [(one.left_at(now_us), one.hours) for one in book.running.values()]
        committed = sum(floor(left * hours * HOUR_PARTS) for left, hours in lefts) / HOUR_PARTS
        risky = (
            sum(floor(hours * HOUR_PARTS) for hours in self.risky_hours(probability, lifetime_us, now_us)) / HOUR_PARTS
        )
        own = mean_of([book])
        mean = (mean_of(of_stratum) or 0.0) if own is None else own
        return book.earned_hours, committed, mean, book.evicted_hours, risky


def mean_of(books: Sequence[PlainBook]) -> float | None:
    """The mean core-hours of what was entered in these books, each book summed for itself; None if nothing was."""
    counts, hours = ([sum_in_order([one[at] for one in book.entered]) for book in books] for at in (0, 1))
    count = sum_in_order(counts)
    return max(sum_in_order(hours), 0.0) / count if count > 2**-20 else None


def sum_in_order(hours: Sequence[float]) -> float:
    """The sum to the last digit of adding one after the other."""
    total = 0.0
    for one in hours:
        total += one
    return total
