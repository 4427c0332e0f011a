"""Bodies and answers of webhooks: receivers of events, their progress, and their dead letters."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from app.domain.events.registry import KINDS
from app.following.webhooks import NewWebhook, Webhook
from app.platform.http.fields import WHOLE, Body, Query
from app.platform.http.page_forms import Limit
from tenure_client.forms.answer import Link, answer_of
from tenure_client.forms.webhooks import LaneAnswer, NewWebhookAnswer, WebhookAnswer

_SEQS_MAX = 1000


def _known(kind: str) -> str:
    if kind not in KINDS:
        raise PydanticCustomError("event_kind", "must be a kind of event: {kinds}", {"kinds": ", ".join(KINDS)})
    return kind


KindName = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*KINDS]})]
Seq = Annotated[int, Field(ge=1, lt=1 << 63), WHOLE]


class WebhookStatus(StrEnum):
    """The state of a webhook: events are sent to it, or it is paused."""

    ACTIVE = "active"
    PAUSED = "paused"


class WebhookBody(Body):
    """Body that creates a webhook."""

    url: Annotated[str, Field(max_length=2000)] = Field(
        description="The URL of the receiver: https or http. Private addresses must be allowed by the service."
    )
    kinds: Annotated[list[KindName], Field(min_length=1, max_length=50)] | None = Field(
        None, description="The kinds of events to send; left out: all."
    )
    after_seq: Annotated[int, Field(ge=0, lt=1 << 63), WHOLE] | None = Field(
        None, description="Send the events after this seq; left out: from now on."
    )


class ReplayBody(Body):
    """Body that selects dead letters to try once more."""

    most_bytes: ClassVar[int] = 1 << 15
    most_values: ClassVar[int] = _SEQS_MAX + 10

    seqs: Annotated[list[Seq], Field(min_length=1, max_length=_SEQS_MAX)] | None = Field(
        None, description="The seqs of the events; left out: all dead letters."
    )


class DeadQuery(Query):
    after_seq: Annotated[
        int, Field(ge=0, lt=1 << 63, description="The seq of the last dead letter that the caller knows.")
    ] = 0
    limit: Limit = 100


def webhook_answer(webhook: Webhook) -> WebhookAnswer:
    """Return the wire form of a webhook."""
    return answer_of(
        WebhookAnswer,
        webhook,
        id=str(webhook.id),
        status=WebhookStatus.ACTIVE if webhook.paused_because is None else WebhookStatus.PAUSED,
        urgent=answer_of(LaneAnswer, webhook.urgent),
        ordinary=answer_of(LaneAnswer, webhook.ordinary),
        links=[Link(rel="self", href=f"/v1/clouds/{webhook.cloud}/webhooks/{webhook.id}")],
    )


def new_webhook_answer(made: NewWebhook) -> NewWebhookAnswer:
    """Return the wire form of a webhook that was just created, with its secret."""
    return answer_of(NewWebhookAnswer, webhook_answer(made.webhook), secret=made.secret)
