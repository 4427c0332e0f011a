"""Webhook subscriptions as their owners manage them; `following/deliveries.py` delivers to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from app.domain.errors import LogPutBack, TooManyWebhooks, WebhookNotFound
from app.domain.paging import Page
from app.following.store.webhooks import DeadLetter, LaneProgress, Webhook, Webhooks
from app.following.trials import TrialAsker
from app.platform.outbound.addresses import read_new_url
from app.platform.outbound.messages import make_secret
from app.platform.outbound.posting import Receipt
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog

__all__ = ["DeadLetter", "LaneProgress", "NewWebhook", "Receipt", "Webhook", "WebhookKeeper"]

PAUSED_BY_HAND = "paused by its owner"


@dataclass(frozen=True, slots=True)
class NewWebhook:
    """A webhook that was just created. Callers see its secret in this value and nowhere else."""

    webhook: Webhook
    secret: str = field(repr=False)


class WebhookKeeper:
    """Manages webhooks by cloud name; a cloud may have `most`. Raises CloudNotFound and WebhookNotFound."""

    def __init__(
        self,
        clouds: Clouds,
        log: EventLog,
        webhooks: Webhooks,
        trials: TrialAsker,
        *,
        most: int,
        allow_private: bool,
    ) -> None:
        self._clouds = clouds
        self._log = log
        self._webhooks = webhooks
        self._trials = trials
        self._most = most
        self._allow_private = allow_private

    async def create(self, cloud: str, url: str, kinds: Sequence[str] | None, after_seq: int | None) -> NewWebhook:
        """Deliver the events after a seq, by default from now on.

        Raises WebhookRefused, TooManyWebhooks, and LogPutBack if the log ends before the seq.
        """
        cloud_id = await self._clouds.id_of(cloud)
        read_new_url(url, allow_private=self._allow_private)
        last_seq = await self._log.last_seq(cloud_id)
        begin = last_seq if after_seq is None else after_seq
        if begin > last_seq:
            raise LogPutBack.beyond(begin, last_seq)
        secret = make_secret()
        webhook_id = await self._webhooks.create(cloud_id, url, secret, kinds, begin, self._most)
        if webhook_id is None:
            raise TooManyWebhooks(f"the cloud has {self._most} webhooks; delete one")
        return NewWebhook(await self.show(cloud, webhook_id), secret)

    async def list(self, cloud: str, marker: int | None, limit: int) -> Page[Webhook]:
        """Return a cloud's webhooks, oldest first."""
        found = await self._webhooks.page(await self._clouds.id_of(cloud), limit + 1, marker or 0)
        return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)

    async def show(self, cloud: str, webhook_id: int) -> Webhook:
        """Return one webhook."""
        webhook = await self._webhooks.get(await self._clouds.id_of(cloud), webhook_id)
        if webhook is None:
            raise WebhookNotFound(f"there is no webhook {webhook_id}")
        return webhook

    async def delete(self, cloud: str, webhook_id: int) -> None:
        """Delete the webhook and its dead letters."""
        if not await self._webhooks.delete(await self._clouds.id_of(cloud), webhook_id):
            raise WebhookNotFound(f"there is no webhook {webhook_id}")

    async def pause(self, cloud: str, webhook_id: int) -> Webhook:
        """Deliver nothing until it is resumed. Pausing a paused one changes nothing."""
        await self._webhooks.pause((await self.show(cloud, webhook_id)).id, PAUSED_BY_HAND)
        return await self.show(cloud, webhook_id)

    async def resume(self, cloud: str, webhook_id: int) -> Webhook:
        """Continue where it was paused."""
        await self._webhooks.resume((await self.show(cloud, webhook_id)).id)
        return await self.show(cloud, webhook_id)

    async def test(self, cloud: str, webhook_id: int) -> Receipt:
        """Have a worker send one message, which is no event, and return the receiver's answer."""
        return await self._trials.ask((await self.show(cloud, webhook_id)).id)

    async def dead(self, cloud: str, webhook_id: int, after_seq: int, limit: int) -> Page[DeadLetter]:
        """Return dead letters after a seq, in log order."""
        webhook = await self.show(cloud, webhook_id)
        found = await self._webhooks.dead(webhook.id, after_seq, limit + 1)
        return Page(found[:limit], str(found[limit - 1].seq) if len(found) > limit else None)

    async def replay(self, cloud: str, webhook_id: int, seqs: Sequence[int] | None) -> int:
        """Mark dead letters for one more attempt, all or those of these seqs; return how many there were."""
        return await self._webhooks.ask_replay((await self.show(cloud, webhook_id)).id, seqs)
