"""Sentences on the books of strata: digits that tell a risk from its promise, and a refusal for the debts of others."""

from __future__ import annotations

import pytest

from app.domain.budgets import AdmittedBy, Book
from app.domain.risks import risk_in_words, risk_of_basis
from app.domain.times import HOUR_US
from app.domain.values import Basis
from app.explaining.rules.bookwords import admitted_in_words, refused_in_words


@pytest.mark.parametrize(
    ("risk", "told"),
    [
        (0.02, "its risk was 2 % at a promise of 1 %: this one alone risks more than is promised for all such starts"),
        (
            0.010000568795440307,
            "its risk was 1.0001 % at a promise of 1 %: this one alone risks more than is promised for all such starts",
        ),
        (
            0.010004,
            "its risk was 1.0004 % at a promise of 1 %: this one alone risks more than is promised for all such starts",
        ),
    ],
)
def test_a_risk_beyond_its_promise_reads_as_more(risk: float, told: str) -> None:
    book = Book(0, None, 1.0, 0, 0.0, 0, AdmittedBy.PAID)
    assert next(admitted_in_words(Basis(3, 1, 0.01, HOUR_US, risk), book)).startswith(told)


def test_all_sentences_round_a_risk_alike() -> None:
    """A risk of 0.99999 % beside a promise of 1 % read as 1 % two sentences later."""
    basis = Basis(3, 1, 0.01, HOUR_US, 0.0099999, probability_bound=0.02)
    book = Book(0, None, 1.0, 0, 0.0, 0, AdmittedBy.WITHIN)
    assert next(admitted_in_words(basis, book)).startswith("its risk was 0.99999 % at a promise of 1 %")
    assert risk_of_basis(basis) == "0.99999 % (at most 2 %)"
    assert risk_in_words(0.0099999, None, None, 0.95, basis.probability) == "0.99999 %"


def test_a_refusal_for_the_debts_of_other_promises_says_so() -> None:
    """The book by itself would pay: it is not in debt, and nothing risky runs in it."""
    told = " ".join(refused_in_words(Basis(3, 1, 0.01, HOUR_US, 0.02), Book(0, None, 0.5, 0, 0.0, 0)))
    assert "a book that has not earned an eviction yet pays only if it has left what books of other promises" in told
    assert "risky instances may run" not in told
