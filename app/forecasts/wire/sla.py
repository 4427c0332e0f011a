"""Answers on the standing of SLA classes."""

from __future__ import annotations

from app.domain.budgets import Book
from app.domain.times import SECOND_US, seconds, to_datetime
from app.domain.values import Guarantee
from app.judging.attainment import Attainment
from app.judging.intervals import CONFIDENCE
from app.judging.outcomes import Outcomes, SectionStanding
from app.platform.http.fields import optional_seconds
from app.scheduling.scheduler import Attainments
from tenure_client.forms.answer import answer_of
from tenure_client.forms.promises import ClassAnswer, ClassBookAnswer, ClassBudgetAnswer, SlaAnswer, StandingAnswer


def sla_answer(found: Attainments) -> SlaAnswer:
    """Return the wire form of the SLA classes."""
    guarantee, outcomes = found.policy.guarantee, found.outcomes
    return SlaAnswer(
        guarantee=guarantee,
        as_of=to_datetime(found.at_us),
        seq=found.seq,
        confidence=CONFIDENCE,
        classes=[_class(one, guarantee, outcomes) for one in found.classes],
        flavors=[_standing(one) for one in outcomes.flavors],
        weeks=[_standing(one) for one in outcomes.weeks],
    )


def _class(found: Attainment, guarantee: Guarantee, outcomes: Outcomes) -> ClassAnswer:
    budget = (
        answer_of(ClassBudgetAnswer, found, spent=found.evicted, unit=found.unit)
        if guarantee is Guarantee.POOLED
        else None
    )
    books = [_book(one) for one in found.books] if guarantee is Guarantee.STRATIFIED else None
    return answer_of(
        ClassAnswer,
        found,
        budget=budget,
        books=books,
        verdict=found.judgement.verdict,
        sentence=found.judgement.sentence,
        strata=[_standing(one) for one in outcomes.strata[found.promised]],
    )


def _standing(one: SectionStanding) -> StandingAnswer:
    counts, judgement = one.counts, one.judgement
    return StandingAnswer(
        name=one.name,
        promised=one.promised,
        admitted=counts.admitted,
        evicted=counts.evicted,
        ratio=one.ratio,
        low=judgement.low,
        high=judgement.high,
        verdict=judgement.verdict,
        sentence=judgement.sentence,
        core_s=counts.core_us / SECOND_US,
        lost_core_s=counts.lost_core_us / SECOND_US,
        overran=counts.overran,
        overran_share=one.overran_share,
        overrun_evicted=counts.overrun_evicted,
    )


def _book(book: Book) -> ClassBookAnswer:
    return answer_of(
        ClassBookAnswer, book, from_s=seconds(book.from_us), below_s=optional_seconds(book.below_us), left=book.left
    )
