"""Answers about evictions under a grace period that no controller has confirmed."""

from __future__ import annotations

from enum import StrEnum

from app.domain.times import to_datetime
from app.engine.cloud import Handover
from tenure_client.forms.answer import answer_of
from tenure_client.forms.instances import HandoverAnswer


class HandoverStatus(StrEnum):
    """The state of a hand-over: in time or overdue."""

    PENDING = "pending"
    OVERDUE = "overdue"


def handover_answer(handover: Handover) -> HandoverAnswer:
    """Return the wire form of a hand-over."""
    return answer_of(
        HandoverAnswer,
        handover,
        id=handover.instance_id,
        scheduled_at=to_datetime(handover.scheduled_us),
        deadline=to_datetime(handover.deadline_us),
        status=HandoverStatus.OVERDUE if handover.is_overdue else HandoverStatus.PENDING,
    )
