"""Sentences on an owner's share name the book's unit, and what the share is of."""

from __future__ import annotations

from app.domain.budgets import Book
from app.domain.times import HOUR_US
from app.domain.values import QuotaKind, QuotaUse
from app.explaining.rules.quotawords import refused_by_quota

USE = QuotaUse(QuotaKind.SHARE, 1.5, 0.5, 0.2)


def test_a_share_of_a_book_that_has_less_than_one_eviction_is_of_one() -> None:
    """It was said to be of what the book had left, which was nothing."""
    told = refused_by_quota("a", USE, Book(0, HOUR_US, 0.0, 0, 0.0, 0))
    assert "bore 1.5 evictions" in told
    assert "allows 0.2: of the 0 that the book had left, or of one eviction where that is more" in told


def test_a_share_of_a_book_of_core_hours_is_in_core_hours() -> None:
    book = Book(0, HOUR_US, 4.0, 0, 0.0, 0, core_hours=2.0, mean_core_hours=1.0, evicted_core_hours=1.0)
    told = refused_by_quota("a", USE, book)
    assert "bore 1.5 core-hours" in told
    assert "evictions" not in told
    assert "of the 3 that the book had left, or of a usual instance's core-hours" in told
