"""Answers on the standing of SLA classes."""

from __future__ import annotations

from collections.abc import Iterable

from app.admission.attainment import Attainment
from app.admission.reliability import CONFIDENCE
from app.domain.times import seconds, to_datetime
from app.domain.values import Book, Guarantee
from app.platform.http.fields import optional_seconds
from tenure_client.forms.answer import answer_of
from tenure_client.forms.promises import ClassAnswer, ClassBookAnswer, ClassBudgetAnswer, SlaAnswer


def sla_answer(guarantee: Guarantee, at_us: int, seq: int, classes: Iterable[Attainment]) -> SlaAnswer:
    """Return the wire form of the SLA classes."""
    return SlaAnswer(
        guarantee=guarantee,
        as_of=to_datetime(at_us),
        seq=seq,
        confidence=CONFIDENCE,
        classes=[_class(found, guarantee) for found in classes],
    )


def _class(found: Attainment, guarantee: Guarantee) -> ClassAnswer:
    budget = answer_of(ClassBudgetAnswer, found, spent=found.evicted) if guarantee is Guarantee.POOLED else None
    books = [_book(one) for one in found.books] if guarantee is Guarantee.STRATIFIED else None
    return answer_of(ClassAnswer, found, budget=budget, books=books)


def _book(book: Book) -> ClassBookAnswer:
    return answer_of(
        ClassBookAnswer, book, from_s=seconds(book.from_us), below_s=optional_seconds(book.below_us), left=book.left
    )
