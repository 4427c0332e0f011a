"""Answers on webhooks: receivers of events, their progress, and the events that they refused."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment
from tenure_client.forms.words import WebhookStatusWord


class LaneAnswer(Answer, kw_only=True):
    """The progress of a lane."""

    seq: Annotated[int, Meta(description="All events of the lane up to this seq were accepted, or are dead letters.")]
    attempts: Annotated[int, Meta(description="Failed attempts to send its next event.")]
    retry_at: Moment | None


class WebhookAnswer(Answer, kw_only=True):
    id: str
    url: str
    kinds: Annotated[list[str] | None, Meta(description="The kinds of events sent; null: all.")]
    status: WebhookStatusWord
    paused_because: str | None
    created_at: Moment
    delivered_count: int
    delivered_at: Annotated[Moment | None, Meta(description="The time of the last delivery; null: never.")]
    last_error: Annotated[str | None, Meta(description="The error of the last attempt; null if it succeeded.")]
    urgent: Annotated[LaneAnswer, Meta(description="Evictions, and notices of them.")]
    ordinary: Annotated[LaneAnswer, Meta(description="Everything else.")]
    dead_count: int
    links: list[Link]


class NewWebhookAnswer(WebhookAnswer, kw_only=True):
    """A new webhook. The secret that signs its messages is shown only once."""

    secret: str

    def __repr__(self) -> str:
        return f"NewWebhookAnswer(id={self.id!r}, secret=...)"


class WebhooksAnswer(Answer, kw_only=True):
    webhooks: Annotated[list[WebhookAnswer], Meta(description="Oldest first.")]
    links: list[Link]


class TrialAnswer(Answer, kw_only=True):
    """The receiver's answer."""

    taken: bool
    status: Annotated[int | None, Meta(description="The HTTP status; null if there was no answer.")]
    error: str | None


class DeadLetterAnswer(Answer, kw_only=True):
    seq: int
    kind: str
    attempts: int
    error: str
    died_at: Moment
    replay_asked_at: Annotated[
        Moment | None, Meta(description="The time at which another attempt was requested; null: none is pending.")
    ]


class DeadLettersAnswer(Answer, kw_only=True):
    dead: Annotated[list[DeadLetterAnswer], Meta(description="In log order.")]
    links: list[Link]


class ReplayAnswer(Answer, kw_only=True):
    asked: Annotated[int, Meta(description="The number of dead letters that will be sent once more.")]
