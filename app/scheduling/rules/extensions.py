"""Decisions on longer lifetimes, in words."""

from __future__ import annotations

from app.admission.acceptable import acceptable_lifetime_us
from app.domain.budgets import Book, BudgetUnit
from app.domain.events import ExtensionDecision, ExtensionRejected
from app.domain.numbers import number_text, share_text
from app.domain.risks import floor_in_words, longest_in_words, risk_of_basis
from app.domain.times import SECOND_US, at_least_text, time_text
from app.domain.values import Basis, Rejection


def in_words(decision: ExtensionDecision) -> str:
    """Tell a decision on a longer lifetime in a sentence or two."""
    asked, former = at_least_text(decision.lifetime_us), at_least_text(decision.former_lifetime_us)
    if not isinstance(decision, ExtensionRejected):
        by = " by the service, because its start wanted more" if decision.is_automatic else ""
        return f"Extended{by} from {former} to {asked}, until {time_text(decision.deadline_us)}: {_why(decision)}."
    return (
        f"Not extended from {former} to {asked}: {_why_not(decision)}. Its promise stays as it is.{_instead(decision)}"
    )


def _instead(decision: ExtensionRejected) -> str:
    longest_us = acceptable_lifetime_us(decision)
    gain_us = (longest_us or 0) - decision.former_lifetime_us
    if longest_us is None or gain_us < SECOND_US:
        return ""
    of_book = decision.reason is Rejection.BUDGET_EXHAUSTED and decision.basis.book is not None
    told = longest_in_words(longest_us, of_book=of_book)
    return f" Would have been promised: {at_least_text(gain_us)} more than it has, {told}."


def _why(decision: ExtensionDecision) -> str:
    basis = decision.basis
    if basis.epoch is None:
        return "nothing was promised that could be broken"
    if basis.book is not None:
        is_beyond = (decision.total_risk or 0.0) > (basis.probability or 0.0)
        together = "; the promise is to all starts of that book together" if is_beyond else ""
        return f"{_booked(decision, basis.book)} allowed it{together}"
    return _paid(decision) if basis.budget is not None else f"{_quoted(basis)}, longer than the rest"


def _why_not(decision: ExtensionRejected) -> str:
    match decision.reason:
        case Rejection.NO_HISTORY:
            return "there was no forecast yet to promise anything by"
        case Rejection.QUOTES_STALE:
            return "the quotes were too old to promise anything"
        case Rejection.TOO_FEW_WINDOWS:
            return floor_in_words(decision.basis)
        case Rejection.QUOTA_EXCEEDED if decision.basis.quota is not None:
            use, unit = decision.basis.quota, unit_of(decision.basis.book)
            return (
                f"its owner's instances bear {number_text(use.used)} {unit} of its book, the longer lifetime would "
                f"add {number_text(use.asked)}, and the owner's share allows {number_text(use.allowed)}"
            )
        case Rejection.BUDGET_EXHAUSTED:
            book = decision.basis.book
            return _paid(decision) if book is None else f"{_booked(decision, book)} did not allow it"
        case _:
            return f"{_quoted(decision.basis)}, not longer than the rest"


def _quoted(basis: Basis) -> str:
    quoted = at_least_text(basis.quoted_lifetime_us) if basis.quoted_lifetime_us else "nothing"
    promised = "-" if basis.probability is None else share_text(basis.probability)
    rest = risk_of_basis(basis)
    of_rest = "" if rest is None else f", where the risk was {rest}"
    return f"{_seen(basis)}, {quoted} was quoted at what is left of {promised}{of_rest}"


def _seen(basis: Basis) -> str:
    return f"with {basis.slots} slot{'' if basis.slots == 1 else 's'}, counting its own and what is evicted before it"


def _risk(decision: ExtensionDecision) -> str:
    total = "unknown" if decision.total_risk is None else share_text(decision.total_risk)
    rest = risk_of_basis(decision.basis)
    of_rest = "" if rest is None else f"the risk of what is left of it was {rest}, and "
    probability = decision.basis.probability
    promised = "" if probability is None else f" at a promise of {share_text(probability)}"
    return f"{_seen(decision.basis)}, {of_rest}the risk of its whole life was {total}{promised}"


def _booked(decision: ExtensionDecision, book: Book) -> str:
    told = f"{number_text(book.left)} {unit_of(book)}"
    return f"{_risk(decision)}, and the book of its stratum, with {told} left,"


def unit_of(book: Book | None) -> str:
    """Return the name of what a book counts."""
    return "evictions" if book is None or book.unit is BudgetUnit.INSTANCES else "core-hours"


def _paid(decision: ExtensionDecision) -> str:
    budget = decision.basis.budget
    assert budget is not None
    return (
        f"{_risk(decision)}; the budget of all who have its promise allowed {number_text(budget.earned)} "
        f"{'evictions' if budget.core_hours is None else 'core-hours of evictions'}, "
        f"{number_text(budget.spent)} had happened, {number_text(budget.committed)} were set aside, and the longer "
        f"lifetime was to be charged {number_text(budget.charge)} more"
    )
