"""Sentences on the books of the stratified guarantee."""

from __future__ import annotations

from collections.abc import Iterator

from app.admission.strata import AdmittingLine, lines_of, unearned_places
from app.domain.budgets import AdmittedBy, Book, BudgetUnit
from app.domain.numbers import number_text, share_text, told_apart
from app.domain.times import length_text
from app.domain.values import Basis

_ADMITTED = {
    AdmittedBy.SMALL: "at most half of what was promised, which is admitted whatever the book has left",
    AdmittedBy.WITHIN: "within what was promised",
    AdmittedBy.PAID: "this one alone risks more than is promised for all such starts together, which a book that is "
    "not in debt bears beside few risky instances",
}


def admitted_in_words(basis: Basis, book: Book) -> Iterator[str]:
    """Say which line admitted a start, and what the book of its stratum held."""
    why = "" if book.admitted_by is None else f": {_ADMITTED[book.admitted_by]}"
    yield f"{_risk_in_words(basis)}{why}."
    yield _held(book)


def refused_in_words(basis: Basis, book: Book) -> Iterator[str]:
    """Say why none of the lines admitted a start, and what the book of its stratum held."""
    risk, probability = basis.estimated_probability or 0.0, basis.probability or 0.0
    yield f"{_risk_in_words(basis)}, and none of the three lines of the rule admits that."
    reasons = [_reason(line, risk, book) for line in lines_of(book, probability)]
    yield f"{reasons[0]}; {reasons[1]}; {reasons[2]}."
    yield _held(book)


def stratum_in_words(book: Book) -> str:
    """Name the lifetimes of a book's stratum."""
    if book.below_us is None:
        return f"lifetimes from {length_text(book.from_us)} on" if book.from_us else "all lifetimes"
    return f"lifetimes {f'from {length_text(book.from_us)} ' if book.from_us else ''}below {length_text(book.below_us)}"


def _reason(line: AdmittingLine, risk: float, book: Book) -> str:
    most = _share(max(line.risk, 0.0))
    if risk > line.risk:
        return {
            AdmittedBy.SMALL: f"A small risk is {most} at most",
            AdmittedBy.WITHIN: f"what is within the promise is {most} at most",
            AdmittedBy.PAID: f"the book bears {most} at most",
        }[line.name]
    if line.admits(risk, book):
        return (
            "beyond the promise a book that has not earned an eviction yet pays only if it has left what books of "
            "other promises for these lifetimes owe"
        )
    if book.unit is BudgetUnit.INSTANCES:
        earned = "" if unearned_places(book) else "as many as it has evictions left, "
        return f"beyond the promise {earned}{line.most_risky} risky instances may run, and {book.risky} ran already"
    most = number_text(max(line.most_risky or 0.0, 0.0))
    return (
        f"beyond the promise risky instances of {most} core-hours may run, this one among them, and "
        f"{number_text(book.risky_weight)} core-hours ran already"
    )


def _held(book: Book) -> str:
    if book.unit is BudgetUnit.CORE_HOURS:
        return (
            f"The book of {stratum_in_words(book)} with this promise counts core-hours: it had earned "
            f"{number_text(book.earned)}; {number_text(book.evicted_core_hours or 0.0)} had been evicted, and "
            f"{number_text(book.committed)} were set aside for what ran. This instance declared "
            f"{number_text(book.weight)}, a usual one {number_text(book.usual_weight)}."
        )
    return (
        f"The book of {stratum_in_words(book)} with this promise had earned {number_text(book.earned)} evictions; "
        f"{book.evicted} had happened, and {number_text(book.committed)} were set aside for what ran."
    )


def _risk_in_words(basis: Basis) -> str:
    """Tell the risk of a start beside its promise, with as many digits as tell the two apart."""
    risk, promise = basis.estimated_probability, basis.probability
    texts = told_apart(one for one in (risk, promise) if one is not None)
    told = [_share(one) if one is None else texts[one] for one in (risk, promise)]
    return f"its risk was {told[0]} at a promise of {told[1]}"


def _share(probability: float | None) -> str:
    return "-" if probability is None else share_text(probability)
