"""Calls about webhooks, described like those in `calls`."""

from __future__ import annotations

from collections.abc import Sequence

from tenure_client import endpoints
from tenure_client.calls import PAGE
from tenure_client.endpoints import Call, Listing
from tenure_client.forms.webhooks import (
    DeadLetterAnswer,
    NewWebhookAnswer,
    ReplayAnswer,
    TrialAnswer,
    WebhookAnswer,
)


def create_webhook(
    cloud: str, url: str, *, kinds: Sequence[str] | None = None, after_seq: int | None = None
) -> Call[NewWebhookAnswer]:
    """Create a webhook for these kinds of events or all, after a seq or from now on. The secret is shown only here."""
    return endpoints.CREATE_WEBHOOK.call(body={"url": url, "kinds": kinds, "after_seq": after_seq}, cloud=cloud)


def webhooks(cloud: str, *, limit: int = PAGE, marker: int | None = None) -> Listing[WebhookAnswer]:
    """List a cloud's webhooks with their progress."""
    return Listing(
        endpoints.WEBHOOKS.call(query={"limit": limit, "marker": marker}, cloud=cloud), lambda page: page.webhooks
    )


def webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Show a webhook, its progress and its last failure."""
    return endpoints.WEBHOOK.call(cloud=cloud, webhook=webhook)


def delete_webhook(cloud: str, webhook: str) -> Call[None]:
    """Delete a webhook and its dead letters. What is sent within the next second may still arrive."""
    return endpoints.DELETE_WEBHOOK.call(cloud=cloud, webhook=webhook)


def pause_webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Pause a webhook until it is resumed. What is sent within the next second may still arrive."""
    return endpoints.PAUSE_WEBHOOK.call(cloud=cloud, webhook=webhook)


def resume_webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Resume a webhook where it was paused."""
    return endpoints.RESUME_WEBHOOK.call(cloud=cloud, webhook=webhook)


def test_webhook(cloud: str, webhook: str) -> Call[TrialAnswer]:
    """Send a test message, which is not an event, and return the receiver's answer."""
    return endpoints.TEST_WEBHOOK.call(cloud=cloud, webhook=webhook)


def dead_letters(cloud: str, webhook: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[DeadLetterAnswer]:
    """List the events that the receiver did not accept, in log order."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(endpoints.DEAD_LETTERS.call(query=query, cloud=cloud, webhook=webhook), lambda page: page.dead)


def replay_dead_letters(cloud: str, webhook: str, *, seqs: Sequence[int] | None = None) -> Call[ReplayAnswer]:
    """Send these dead letters, or all, once more."""
    return endpoints.REPLAY_DEAD_LETTERS.call(body={"seqs": seqs}, cloud=cloud, webhook=webhook)
