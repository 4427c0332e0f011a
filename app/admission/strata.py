"""The stratified guarantee: the promise holds for short and for long instances alike.

Each stratum of declared lifetimes has a *book* of its own for each promised probability p (engine.cloud.books). A start
earns at most what it risks four times over, so nothing is earned without risk. A start is admitted by the first of
three lines that allows it: its risk is small; its risk is within p and the book is not in debt; or a tenth of what the
book has left pays for it, at a risk of 5 p at most and beside few risky instances. Exposed starts are paid for like any
other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor
from typing import NamedTuple

from app.admission.quote import Quotes
from app.domain.requests import StartRequest
from app.domain.strata import stratum_index
from app.domain.values import AdmittedBy, Book
from app.engine.books import RISKY
from app.engine.cloud import Cloud

SPREAD = 10.0
"""One start may use the tenth part of what is left."""
HIGHEST = 5.0
"""No start is admitted whose risk is above so many p."""
RISKY_BEYOND = 2
"""So many risky instances may run, together with a start whose risk is beyond p, whatever the book has left."""


class AdmittingLine(NamedTuple):
    """A line of the rule, applied to a book: the highest risk that it admits, and the most risky instances with it."""

    name: AdmittedBy
    risk: float
    most_risky: int | None

    def admits(self, risk: float, risky: int) -> bool:
        """Return True if the line admits a start of this risk beside so many risky instances."""
        return risk <= self.risk and (self.most_risky is None or risky + 1 <= self.most_risky)


def lines_of(book: Book, probability: float) -> tuple[AdmittingLine, ...]:
    """Return the three lines under the promise `probability`. A book in debt bears half the risk."""
    left = book.left
    bearable, affordable = probability / 2 if left < 0 else probability, max(floor(left), 0)
    paid = min(HIGHEST * probability, (left - book.committed) / SPREAD)
    return (
        AdmittingLine(AdmittedBy.SMALL, min(bearable, RISKY * probability), None),
        AdmittingLine(AdmittedBy.WITHIN, bearable, None),
        AdmittingLine(AdmittedBy.PAID, paid, max(RISKY_BEYOND, affordable)),
    )


def admitting_line(book: Book, risk: float, probability: float) -> AdmittedBy | None:
    """Return the line that admits a start of this risk under the promise `probability`; None if it is refused."""
    lines = lines_of(book, probability)
    return next((line.name for line in lines if line.admits(risk, book.risky)), None)


def read_book(
    cloud: Cloud, request: StartRequest, probability: float, estimate: float, slots: int, quotes: Quotes, at_us: int
) -> Book:
    """Return the book of a start's stratum, with the line that admits the start.

    `estimate`, the forecast's eviction probability for the declared lifetime, is its risk.
    """
    lifetime_us = request.lifetime_us or 0
    books = cloud.books(probability, at_us)[: stratum_index(lifetime_us, cloud.policy.strata_us) + 1]
    line = admitting_line(books[-1], estimate, probability)
    if line is not None:
        return replace(books[-1], admitted_by=line)
    certified_us = [quotes.lifetime_us(request.flavor, slots, most_risk(book, probability)) or 0 for book in books]
    return replace(books[-1], affordable_us=_affordable_us(books, certified_us, lifetime_us))


def most_risk(book: Book, probability: float) -> float:
    """Return the highest risk that one of the lines admits now."""
    return max(line.risk for line in lines_of(book, probability) if line.admits(line.risk, book.risky))


def _affordable_us(books: Sequence[Book], certified_us: Sequence[int], lifetime_us: int) -> int:
    """Return the longest lifetime that would be admitted in place of one that is too long; 0 if there is none.

    `certified_us`: for each book, the lifetime below which the forecast's estimate is within what the book admits.
    """
    for book, below_us in zip(reversed(books), reversed(certified_us), strict=True):
        longest_us = min(below_us, lifetime_us, book.below_us or lifetime_us) - 1
        if longest_us >= book.from_us:
            return longest_us
    return 0
