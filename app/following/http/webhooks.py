"""Handlers for the webhooks of a cloud."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import WebhookNotFound
from app.following.webhooks import WebhookKeeper
from app.following.wire.webhooks import DeadQuery, ReplayBody, WebhookBody, new_webhook_answer, webhook_answer
from app.platform.http.bodies import read_body, read_query
from app.platform.http.page_forms import NumberedPageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from tenure_client.forms.answer import answer_of
from tenure_client.forms.webhooks import (
    DeadLetterAnswer,
    DeadLettersAnswer,
    ReplayAnswer,
    TrialAnswer,
    WebhooksAnswer,
)


async def create_webhook(request: Request) -> Response:
    """Send the log's events to a URL as signed CloudEvents. The secret is in this answer and never shown again."""
    body = await read_body(request, WebhookBody)
    made = await reached(request, WebhookKeeper).create(
        request.path_params["cloud"], body.url, body.kinds, body.after_seq
    )
    answer = new_webhook_answer(made)
    return respond(answer, 201, {"Location": answer.links[0].href, "Cache-Control": "no-store"})


async def list_webhooks(request: Request) -> Response:
    """List a cloud's webhooks, and how far each has got."""
    query = read_query(request, NumberedPageQuery)
    page = await reached(request, WebhookKeeper).list(request.path_params["cloud"], query.marker, query.limit)
    answers = [webhook_answer(webhook) for webhook in page.items]
    return respond(WebhooksAnswer(webhooks=answers, links=next_link(request, page.marker)))


async def show_webhook(request: Request) -> Response:
    """Show a webhook, how far it has got, and its last failure."""
    return respond(webhook_answer(await reached(request, WebhookKeeper).show(*_names(request))))


async def delete_webhook(request: Request) -> Response:
    """Delete a webhook and its dead letters. What is sent within the next second may still arrive."""
    await reached(request, WebhookKeeper).delete(*_names(request))
    return Response(status_code=204)


async def pause_webhook(request: Request) -> Response:
    """Stop sending until the webhook is resumed. Its place in the log is kept.

    What is sent within the next second may still arrive.
    """
    return respond(webhook_answer(await reached(request, WebhookKeeper).pause(*_names(request))))


async def resume_webhook(request: Request) -> Response:
    """Continue where the webhook was paused, whether a caller or the service paused it."""
    return respond(webhook_answer(await reached(request, WebhookKeeper).resume(*_names(request))))


async def test_webhook(request: Request) -> Response:
    """Send one message of the type `tenure.webhook_test`, which is no event, and return the receiver's answer."""
    receipt = await reached(request, WebhookKeeper).test(*_names(request))
    return respond(answer_of(TrialAnswer, receipt))


async def list_dead_letters(request: Request) -> Response:
    """List the events that the receiver did not take in all attempts."""
    query = read_query(request, DeadQuery)
    page = await reached(request, WebhookKeeper).dead(*_names(request), query.after_seq, query.limit)
    answers = [answer_of(DeadLetterAnswer, letter) for letter in page.items]
    return respond(DeadLettersAnswer(dead=answers, links=next_link(request, page.marker, "after_seq")))


async def replay_dead_letters(request: Request) -> Response:
    """Try dead letters once more, under the ids that they had. Those that are not taken stay dead."""
    body = await read_body(request, ReplayBody)
    return respond(ReplayAnswer(asked=await reached(request, WebhookKeeper).replay(*_names(request), body.seqs)), 202)


def _names(request: Request) -> tuple[str, int]:
    """Return the cloud and the webhook named in the path."""
    text: str = request.path_params["webhook"]
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise WebhookNotFound(f"there is no webhook {text!r}")
    return request.path_params["cloud"], int(text)
