"""The calls about webhooks, described as those in `calls`."""

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
    """Have events sent to a URL: of these kinds or of all, after a seq or from now on. The secret is shown once."""
    return endpoints.CREATE_WEBHOOK.call(body={"url": url, "kinds": kinds, "after_seq": after_seq}, cloud=cloud)


def webhooks(cloud: str, *, limit: int = PAGE, marker: int | None = None) -> Listing[WebhookAnswer]:
    """A cloud's webhooks, and how far each has got."""
    return Listing(
        endpoints.WEBHOOKS.call(query={"limit": limit, "marker": marker}, cloud=cloud), lambda page: page.webhooks
    )


def webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """A webhook, how far it has got, and what went wrong last."""
    return endpoints.WEBHOOK.call(cloud=cloud, webhook=webhook)


def delete_webhook(cloud: str, webhook: str) -> Call[None]:
    """Send nothing more to it, and forget it with its dead letters."""
    return endpoints.DELETE_WEBHOOK.call(cloud=cloud, webhook=webhook)


def pause_webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Send nothing until it is resumed."""
    return endpoints.PAUSE_WEBHOOK.call(cloud=cloud, webhook=webhook)


def resume_webhook(cloud: str, webhook: str) -> Call[WebhookAnswer]:
    """Go on where it was paused."""
    return endpoints.RESUME_WEBHOOK.call(cloud=cloud, webhook=webhook)


def test_webhook(cloud: str, webhook: str) -> Call[TrialAnswer]:
    """Send one message that is no event, and tell how it was answered."""
    return endpoints.TEST_WEBHOOK.call(cloud=cloud, webhook=webhook)


def dead_letters(cloud: str, webhook: str, *, after_seq: int = 0, limit: int = PAGE) -> Listing[DeadLetterAnswer]:
    """The events that the receiver did not take, in log order."""
    query = {"after_seq": after_seq, "limit": limit}
    return Listing(endpoints.DEAD_LETTERS.call(query=query, cloud=cloud, webhook=webhook), lambda page: page.dead)


def replay_dead_letters(cloud: str, webhook: str, *, seqs: Sequence[int] | None = None) -> Call[ReplayAnswer]:
    """Have these dead letters, or all, tried once more."""
    return endpoints.REPLAY_DEAD_LETTERS.call(body={"seqs": seqs}, cloud=cloud, webhook=webhook)
