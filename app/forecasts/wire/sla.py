"""Answers on the standing of SLA classes."""

from __future__ import annotations

from collections.abc import Iterable

from app.admission.attainment import Attainment
from app.admission.reliability import CONFIDENCE
from app.domain.times import to_datetime
from app.domain.values import Guarantee
from tenure_client.forms.answer import answer_of
from tenure_client.forms.promises import ClassAnswer, ClassBudgetAnswer, SlaAnswer


def sla_answer(guarantee: Guarantee, at_us: int, seq: int, classes: Iterable[Attainment]) -> SlaAnswer:
    """Return the wire form of the SLA classes."""
    return SlaAnswer(
        guarantee=guarantee,
        as_of=to_datetime(at_us),
        seq=seq,
        confidence=CONFIDENCE,
        classes=[_class(found, pooled=guarantee is Guarantee.POOLED) for found in classes],
    )


def _class(found: Attainment, *, pooled: bool) -> ClassAnswer:
    budget = answer_of(ClassBudgetAnswer, found, spent=found.evicted)
    return answer_of(ClassAnswer, found, budget=budget if pooled else None)
