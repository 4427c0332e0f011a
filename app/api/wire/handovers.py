"""Evictions under a grace period, until a controller has confirmed them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from app.api.wire.fields import Answer
from app.api.wire.paging import Link
from app.domain.times import to_datetime
from app.domain.values import EvictionReason
from app.engine.cloud import Handover


class HandoverStatus(StrEnum):
    """Whether there is time left."""

    PENDING = "pending"
    OVERDUE = "overdue"


@dataclass(slots=True, kw_only=True)
class HandoverAnswer(Answer):
    id: Annotated[str, Field(description="The evicted instance.")]
    node: str
    flavor: str
    reason: EvictionReason
    cause_seq: Annotated[int, Field(description="The event that it makes room for.")]
    scheduled_at: datetime
    deadline: datetime
    status: HandoverStatus


@dataclass(slots=True, kw_only=True)
class HandoversAnswer(Answer):
    handovers: Annotated[list[HandoverAnswer], Field(description="By deadline; confirmed ones are left out.")]
    links: list[Link]


def handover_answer(handover: Handover) -> HandoverAnswer:
    """The wire form of an eviction that waits for a controller's word."""
    return HandoverAnswer(
        id=handover.instance_id,
        node=handover.node,
        flavor=handover.flavor,
        reason=handover.reason,
        cause_seq=handover.cause_seq,
        scheduled_at=to_datetime(handover.scheduled_us),
        deadline=to_datetime(handover.deadline_us),
        status=HandoverStatus.OVERDUE if handover.is_overdue else HandoverStatus.PENDING,
    )
