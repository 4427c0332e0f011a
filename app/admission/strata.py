"""The stratified guarantee: the promise holds for short and for long instances alike.

Each stratum of declared lifetimes has a *book* of its own for each promised probability p (engine.cloud.books). A start
earns at most what it risks four times over, so nothing is earned without risk. A start is admitted by the first of
three lines that allows it: its risk is small; its risk is within p; or its risk is three times p at most, the book is
not in debt, and few risky instances run in it. Most starts risk far less than p, so what the book earns beyond its
evictions pays for those that risk more. A book of lifetimes below an hour earns that soon, so it pays for nothing
before. Exposed starts are paid for like any other. What a stratum's other books are in debt counts against the third
line too, until a book has earned an eviction by itself: a promise that differs in the last digit finds no book without
debts.

A start weighs 1, or the core-hours that it declares if the policy's budget counts these: earnings, evictions and the
limit on risky instances go by weight. A start that weighs more than two usual ones, and more than the book could pay
for if it were lost, is admitted at a small risk only. So it cannot spend what many small ones earned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import floor, fsum
from typing import NamedTuple

from app.admission.quote import Quotes
from app.domain.budgets import AdmittedBy, Book, BudgetUnit
from app.domain.requests import StartRequest
from app.domain.strata import stratum_index
from app.domain.times import HOUR_US, SECOND_US
from app.engine.books import RISKY, core_hours_of
from app.engine.cloud import Cloud

HIGHEST = 3.0
"""No start is admitted whose risk is above so many p, or above the middle between p and certainty: of a promise of 34 %
three times as much would be any risk. The second is the lower one from p = 0.2 on.
"""
RISKY_BEYOND = 5
"""So many risky instances may run, together with a start whose risk is beyond p, however little the book has left. In a
book that counts core-hours it is so many times the usual weight.
"""
SOON_US = HOUR_US
"""A book of lifetimes below this has no such places: what it pays for beyond p it has earned before (decision 286)."""
HEAVY = 2
"""A start is heavy if it weighs more than so many usual ones, and more than what is left."""
PRECISION_US = SECOND_US
"""The longest lifetime that would be admitted is found to this."""


class AdmittingLine(NamedTuple):
    """A line of the rule, applied to a book and a start: the highest risk that it admits, and the weight of the risky
    instances that may run then, the start among them.
    """

    name: AdmittedBy
    risk: float
    most_risky: float | None

    def admits(self, risk: float, book: Book) -> bool:
        """Return True if the line admits a start of this risk beside the book's risky instances."""
        return risk <= self.risk and (self.most_risky is None or book.risky_weight + book.weight <= self.most_risky)


def lines_of(book: Book, probability: float) -> tuple[AdmittingLine, ...]:
    """Return the three lines under the promise `probability`. Only a book that is not in debt bears more than that."""
    affordable = max(floor(book.left), 0) if book.unit is BudgetUnit.INSTANCES else book.left
    small, is_heavy = RISKY * probability, book.weight > max(HEAVY * book.usual_weight, affordable)
    bearable = small if is_heavy else probability
    highest = min(HIGHEST * probability, (1 + probability) / 2)
    beyond = bearable if is_heavy or book.left < 0 else highest
    return (
        AdmittingLine(AdmittedBy.SMALL, small, None),
        AdmittingLine(AdmittedBy.WITHIN, bearable, None),
        AdmittingLine(AdmittedBy.PAID, beyond, max(unearned_places(book) * book.usual_weight, affordable)),
    )


def unearned_places(book: Book) -> int:
    """Return how many risky instances may run, together with a start beyond the promise, before the book has earned."""
    return 0 if book.below_us is not None and book.below_us <= SOON_US else RISKY_BEYOND


def admitting_line(book: Book, risk: float, probability: float) -> AdmittedBy | None:
    """Return the line that admits a start of this risk by its book, under the promise `probability`; None if none does.

    What the stratum's other books owe is not in it: see `line_beside_others`.
    """
    lines = lines_of(book, probability)
    return next((line.name for line in lines if line.admits(risk, book)), None)


def line_beside_others(cloud: Cloud, stratum: int, book: Book, risk: float, probability: float) -> AdmittedBy | None:
    """Return the line that admits a start of this risk; None if it is refused.

    A book that has not yet earned as much as a usual eviction costs pays for nothing if it has less left than the
    stratum's other books are in debt. An older one is not closed by them: else any tenant could close it.
    """
    line = admitting_line(book, risk, probability)
    if line is not AdmittedBy.PAID or book.earned >= book.usual_weight:
        return line
    lefts = cloud.left_in(stratum).items()
    owed = fsum(max(-left, 0.0) for promise, left in lefts if promise != probability)
    return line if book.left >= owed else None


def weighed(book: Book, cores: int, lifetime_us: int) -> Book:
    """Return the book as it is read for a start of so many cores, or for a longer lifetime of it."""
    if book.unit is BudgetUnit.INSTANCES:
        return book
    return replace(book, core_hours=core_hours_of(cores, lifetime_us))


def read_book(
    cloud: Cloud, request: StartRequest, probability: float, estimate: float, slots: int, quotes: Quotes, at_us: int
) -> Book:
    """Return the book of a start's stratum, with the line that admits the start.

    `estimate`, the forecast's eviction probability for the declared lifetime, is its risk.
    """
    lifetime_us, cores = request.lifetime_us or 0, request.count * cloud.flavors[request.flavor].resources.cores
    stratum = stratum_index(lifetime_us, cloud.policy.strata_us)
    *shorter, own = cloud.books(probability, at_us)[: stratum + 1]
    own = weighed(own, cores, lifetime_us)
    line = line_beside_others(cloud, stratum, own, estimate, probability)
    if line is not None:
        return replace(own, admitted_by=line)
    if own.unit is BudgetUnit.INSTANCES:
        within_us = quotes.lifetime_us(request.flavor, slots, probability) or 0
        return replace(own, affordable_us=max(min(within_us, lifetime_us) - 1, 0))

    def bears(book: Book, shorter_us: int) -> bool:
        risk = quotes.probability(request.flavor, slots, shorter_us)
        return risk is not None and risk <= most_bearable(weighed(book, cores, shorter_us), probability)

    return replace(own, affordable_us=_longest_by_weight_us([*shorter, own], lifetime_us, bears))


def most_bearable(book: Book, probability: float) -> float:
    """Return the risk that is admitted whatever the book has left.

    What is proposed in place of a refused start goes by it: nobody is offered more risk than was promised.
    """
    return lines_of(book, probability)[1].risk


def longest_us(low_us: int, high_us: int, admits: Callable[[int], bool]) -> int | None:
    """Return the longest lifetime from low_us to high_us that is admitted, to PRECISION_US; None if low_us is not.

    What is admitted for a lifetime is taken to be admitted for shorter ones.
    """
    if high_us < low_us or not admits(low_us):
        return None
    if admits(high_us):
        return high_us
    while high_us - low_us > PRECISION_US:
        middle_us = (low_us + high_us) // 2
        low_us, high_us = (middle_us, high_us) if admits(middle_us) else (low_us, middle_us)
    return low_us


def _longest_by_weight_us(books: Sequence[Book], lifetime_us: int, bears: Callable[[Book, int], bool]) -> int:
    """Return the longest lifetime that a book bears in place of one that is too long; 0 if there is none.

    A shorter one weighs less, so what a book bears depends on the lifetime itself.
    """
    for book in reversed(books):
        most_us = min(lifetime_us, book.below_us or lifetime_us) - 1
        found = longest_us(book.from_us, most_us, partial(bears, book))
        if found is not None:
            return found
    return 0
