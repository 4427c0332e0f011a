"""Delivers events to webhooks: at least once, in order, urgent events first.

Each subscription has two lanes, and each lane has a place of its own in the log. The urgent lane holds evictions and
the notices of evictions and of risk, but not confirmations; the ordinary lane holds the rest. Within a lane events are
delivered in order of seq, one at a time. Each is tried until it is taken or dead. An urgent event waits for no ordinary
one; an ordinary event waits until every urgent one before it is settled. So a receiver that has heard of an on-demand
start has heard of its victims.

One of all workers delivers. When it dies its lock is released and another worker goes on. All progress is in the
database: after a kill the event that was under way is sent again, under the same id.
"""

from __future__ import annotations

import asyncio
import logging

from app.domain.errors import LogUnavailable
from app.following.courier import Courier, DeliveryParts, Memory
from app.following.store.webhooks import Identity
from app.platform.database.lockids import DELIVERY_LOCK

logger = logging.getLogger(__name__)

_KEEP_GONE = 1000
"""Webhooks that are gone and whose receivers' newest events are remembered."""


class Deliveries:
    """Runs one courier for each active webhook, while this worker is the one that delivers."""

    def __init__(self, parts: DeliveryParts) -> None:
        self._parts = parts
        self._couriers: dict[Identity, asyncio.Task[None]] = {}
        self._memory = Memory()

    async def run(self) -> None:
        """Deliver or stand by, until cancelled."""
        while True:
            try:
                await self.run_while_locked()
            except LogUnavailable as error:
                logger.warning("deliveries were interrupted: %s", error)
            except Exception:  # the loop must outlive any fault
                logger.exception("deliveries failed")
            await asyncio.sleep(self._parts.pace.standby_s)

    async def run_while_locked(self) -> None:
        """Deliver until the lock is lost; return at once if another worker has it."""
        async with self._parts.locks.held(DELIVERY_LOCK) as hold:
            if hold is None:
                return
            try:
                while True:
                    await hold.check()
                    await self._parts.trials.look()
                    await self._reconcile()
                    await asyncio.sleep(self._parts.pace.look_s)
            finally:
                await self._parts.trials.close()
                couriers = list(self._couriers.values())
                self._couriers.clear()
                for courier in couriers:
                    courier.cancel()
                await asyncio.gather(*couriers, return_exceptions=True)

    async def _reconcile(self) -> None:
        """Keep one courier for each active webhook and none for any other; replace those that failed."""
        active = {webhook.identity: webhook for webhook in await self._parts.webhooks.active()}
        self._remove_ended()
        for identity in self._couriers.keys() - active.keys():
            self._couriers[identity].cancel()
        if self._memory.told:
            await self._forget()
        for identity in active.keys() - self._couriers.keys():
            begun = Courier(active[identity], self._parts, self._memory)
            self._couriers[identity] = asyncio.create_task(begun.run())

    def _remove_ended(self) -> None:
        """Remove the couriers that ended, and log why: in one line for all of them where the database was away."""
        lost = ""
        for identity, courier in [item for item in self._couriers.items() if item[1].done()]:
            del self._couriers[identity]
            error = None if courier.cancelled() else courier.exception()
            if isinstance(error, LogUnavailable):
                lost = str(error)
            elif error is not None:
                logger.warning("webhook %d: delivering was interrupted: %s", identity.id, error, exc_info=error)
        if lost:
            logger.warning("deliveries were interrupted: %s", lost)

    async def _forget(self) -> None:
        """Forget what those have taken whose logs were put back: each receiver is put right before it is resumed.

        Of webhooks that are gone some are kept, because a backup that is put back in steps may bring them back.
        """
        there = await self._parts.webhooks.put_back()
        for identity in [identity for identity, is_put_back in there.items() if is_put_back]:
            self._memory.forget(identity)
        for identity in [identity for identity in self._memory.told if identity not in there][:-_KEEP_GONE]:
            self._memory.forget(identity)
