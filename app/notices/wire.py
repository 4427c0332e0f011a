"""Answers about evictions under a grace period that no controller has confirmed, and about moves in their place."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from app.domain.times import to_datetime
from app.engine.cloud import Handover, Proposal
from tenure_client.forms.answer import answer_of
from tenure_client.forms.instances import HandoverAnswer, ProposalAnswer, ProposalsAnswer, ProposedMoveAnswer


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


def proposals_answer(proposals: Iterable[Proposal], at_us: int, seq: int) -> ProposalsAnswer:
    """Return the wire form of what is proposed at a time, in the state after an event."""
    answers = [
        ProposalAnswer(
            flavor=one.flavor,
            node=one.node,
            moves=[ProposedMoveAnswer(id=move.instance_id, node=move.node, to=move.to) for move in one.moves],
        )
        for one in proposals
    ]
    return ProposalsAnswer(at=to_datetime(at_us), seq=seq, proposals=answers)
