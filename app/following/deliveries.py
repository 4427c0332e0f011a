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
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from random import Random

from app.domain.errors import LogNewer, LogUnavailable
from app.domain.events import Recorded
from app.domain.events.registry import KINDS, URGENT, kind_of
from app.following.store.webhooks import PUT_BACK_CODE, DeadLetter, Identity, Lane, LaneProgress, Webhook, Webhooks
from app.following.trials import TrialSender
from app.platform.database.lockids import DELIVERY_LOCK
from app.platform.database.locks import Locks
from app.platform.outbound.messages import event_message
from app.platform.outbound.posting import Poster, Receipt
from app.platform.telemetry.metrics import DELIVERIES
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.log import EventLog

logger = logging.getLogger(__name__)

_GONE = 410
_REFUSALS = frozenset({400, 406, 409, 411, 413, 414, 415, 422, 431})
"""Answers that say something of the message and nothing of the receiver's health: trying for hours helps nobody."""
_REFUSED_ATTEMPTS = 3
_LONGEST_PAUSE_S = 3600.0
_DEAD_MAX = 1000
_SCANNED_AT_ONCE = 5000
_READ_AT_ONCE = 100
_KEEP_PLACE = 1000
"""Events without interest that are read again after a restart, at most, before the place is kept."""
_KEEP_GONE = 1000
"""Webhooks that are gone and whose receivers' newest events are remembered."""


@dataclass(frozen=True, slots=True)
class DeliveryLimits:
    """Limits of trying: the number of attempts, the pause after the first failure, and the largest whole message."""

    attempts: int
    retry_s: float
    max_bytes: int


@dataclass(frozen=True, slots=True)
class Pace:
    """The pauses of deliveries, in seconds.

    `look_s`: between two looks at which webhooks are active; `idle_s`: the longest without a look at the log and at
    dead letters to be sent again; `standby_s`: between two tries to become the worker that delivers.
    """

    look_s: float = 1.0
    idle_s: float = 2.0
    standby_s: float = 2.0


@dataclass(frozen=True, slots=True)
class DeliveryParts:
    """Parts that the deliveries of a worker share. `render` gives an event's JSON as in the paged list."""

    log: EventLog
    heads: LogHeads
    webhooks: Webhooks
    locks: Locks
    poster: Poster
    trials: TrialSender
    render: Callable[[Recorded], bytes]
    limits: DeliveryLimits
    now: Callable[[], datetime]
    pace: Pace


class Deliveries:
    """Runs one courier for each active webhook, while this worker is the one that delivers."""

    def __init__(self, parts: DeliveryParts) -> None:
        self._parts = parts
        self._couriers: dict[Identity, asyncio.Task[None]] = {}
        self._told: dict[Identity, Recorded] = {}

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
        for identity, courier in list(self._couriers.items()):
            if courier.done():
                del self._couriers[identity]
                if not courier.cancelled() and (error := courier.exception()) is not None:
                    logger.warning("webhook %d: delivering was interrupted: %s", identity.id, error, exc_info=error)
            elif identity not in active:
                courier.cancel()
        if self._told:
            await self._forget()
        for identity in active.keys() - self._couriers.keys():
            begun = Courier(active[identity], self._parts, self._told)
            self._couriers[identity] = asyncio.create_task(begun.run())

    async def _forget(self) -> None:
        """Forget what those have taken whose logs were put back: each receiver is put right before it is resumed.

        Of webhooks that are gone some are kept, because a backup that is put back in steps may bring them back.
        """
        there = await self._parts.webhooks.put_back()
        for identity in [identity for identity, is_put_back in there.items() if is_put_back]:
            self._told.pop(identity, None)
        for identity in [identity for identity in self._told if identity not in there][:-_KEEP_GONE]:
            del self._told[identity]


class Queue:
    """A lane's next events, read some at a time."""

    def __init__(self, lane: Lane, progress: LaneProgress, kinds: list[str], now: datetime) -> None:
        self.lane = lane
        self.settled = self._scanned = progress.seq
        self.attempts = progress.attempts
        self.not_before = 0.0
        if progress.retry_at is not None:
            pause_s = (progress.retry_at - now).total_seconds()
            self.not_before = asyncio.get_running_loop().time() + max(0.0, pause_s)
        self._kinds = kinds
        self._items: deque[Recorded] = deque()

    @property
    def head(self) -> Recorded | None:
        """The next event to deliver, as far as is known."""
        return self._items[0] if self._items else None

    @property
    def place(self) -> int:
        """The seq up to which all of the lane's events are settled."""
        return self._items[0].seq - 1 if self._items else self._scanned

    def may_fill(self, reach: int) -> bool:
        """Return True if events up to `reach` are to be read now."""
        return not self._items and self._scanned < reach

    async def fill(self, log: EventLog, cloud_id: int, reach: int) -> None:
        """Read the next events of the lane, if the log has any up to `reach`."""
        while self.may_fill(reach):
            up_to = min(self._scanned + _SCANNED_AT_ONCE, reach)
            found = []
            if self._kinds:
                found = await log.of_kinds(cloud_id, self._scanned, up_to, self._kinds, _READ_AT_ONCE)
            self._items.extend(found)
            self._scanned = found[-1].seq if len(found) == _READ_AT_ONCE else up_to

    def pop(self) -> None:
        """Settle the head."""
        self.settled = self._items.popleft().seq
        self.attempts, self.not_before = 0, 0.0


class Courier:
    """Delivers to one webhook, until it is paused or deleted, or another courier takes over.

    `told` holds for each webhook the newest event that a receiver has taken from this worker.
    """

    def __init__(self, webhook: Webhook, parts: DeliveryParts, told: dict[Identity, Recorded]) -> None:
        self._webhook = webhook
        self._parts = parts
        self._told = told
        self._times_forgotten = parts.heads.times_forgotten(webhook.cloud_id)
        self._looked_s = self._compared_s = 0.0
        self._random = Random()  # noqa: S311 - jitter
        wanted = set(KINDS if webhook.kinds is None else webhook.kinds)
        now = parts.now()
        self._urgent = Queue(Lane.URGENT, webhook.urgent, sorted(wanted & URGENT), now)
        self._ordinary = Queue(Lane.ORDINARY, webhook.ordinary, sorted(wanted - URGENT), now)

    async def run(self) -> None:
        """Deliver until told otherwise. Raises LogUnavailable if the database is out of reach."""
        while True:
            try:
                return await self._run()
            except LogNewer:  # nothing is lost: a worker of another version delivers it, or this one later
                await asyncio.sleep(self._parts.pace.idle_s)

    async def _is_ahead(self) -> bool:
        """Pause the webhook and return True if the receiver, or the webhook's place, is ahead of the log.

        The log was put back then. The receiver would take the events to come for those that it has.
        """
        webhook, told = self._webhook, self._told.get(self._webhook.identity)
        last_seq = await self._parts.log.last_seq(webhook.cloud_id)
        place = max(webhook.urgent.seq, webhook.ordinary.seq)
        if told is not None and (await self._parts.log.at(webhook.cloud_id, [told.seq])).get(told.seq) != told:
            why = f"the receiver has taken event {told.seq} of a log that was put back and has {last_seq} events now"
        elif place > last_seq:
            why = f"its place is event {place} of a log that was put back and has {last_seq} events now"
        else:
            return False
        logger.warning("webhook %d is paused: %s", webhook.id, why)
        await self._parts.webhooks.pause(webhook.id, f"{PUT_BACK_CODE}: {why}")
        self._told.pop(webhook.identity, None)
        return True

    def _is_outdated(self) -> bool:
        """Return True if the log was put back since this courier began: another one begins at the stored place."""
        return self._parts.heads.times_forgotten(self._webhook.cloud_id) != self._times_forgotten

    async def _run(self) -> None:
        going = not await self._is_ahead()
        while going and not self._is_outdated():
            reach = await self._parts.heads.reach(self._webhook.cloud_id)
            if any(queue.may_fill(reach) for queue in (self._urgent, self._ordinary)):
                reach = await self._parts.heads.look(self._webhook.cloud_id)
                if self._is_outdated():
                    break
            for queue in (self._urgent, self._ordinary):
                await queue.fill(self._parts.log, self._webhook.cloud_id, reach)
            due = self._due()
            if due is not None:
                going = await self._deliver(due)
            else:
                going = await self._keep_places() and await self._idle(reach)
            going = going and not await self._is_resumed()

    async def _is_resumed(self) -> bool:
        """True if the database says that attempts begin anew: this courier's count and pauses are void then.

        Another courier begins from there. The regular look at active webhooks does not notice a short pause.
        """
        now_s = asyncio.get_running_loop().time()
        if now_s - self._compared_s < self._parts.pace.look_s or not (self._urgent.attempts or self._ordinary.attempts):
            return False
        self._compared_s = now_s
        webhook = await self._parts.webhooks.get(self._webhook.cloud_id, self._webhook.id)
        known = (self._urgent.attempts, self._ordinary.attempts)
        return webhook is None or (webhook.urgent.attempts, webhook.ordinary.attempts) != known

    def _due(self) -> Queue | None:
        """Return the lane whose turn it is: ordinary only if no urgent event is open before its next one."""
        now_s = asyncio.get_running_loop().time()
        urgent, ordinary = self._urgent.head, self._ordinary.head
        if urgent is not None and self._urgent.not_before <= now_s:
            return self._urgent
        if ordinary is None or self._ordinary.not_before > now_s:
            return None
        return None if urgent is not None and urgent.seq < ordinary.seq else self._ordinary

    async def _deliver(self, queue: Queue) -> bool:
        """Try the lane's next event once; return False if another courier has taken over."""
        item = queue.head
        assert item is not None
        receipt = await self._post(item)
        attempts = queue.attempts + 1
        if receipt.taken:
            if item.seq > self._newest_told():
                self._told[self._webhook.identity] = item
            going = await self._parts.webhooks.settle(
                self._webhook.id, queue.lane, queue.settled, item.seq, delivered=1, at_us=item.event.at_us
            )
            queue.pop()
            return going
        if receipt.status == _GONE:
            await self._parts.webhooks.pause(self._webhook.id, "the receiver answered 410: it is gone")
            return False
        if self._is_last(receipt, attempts):
            return await self._bury(queue, item, attempts, receipt.error or "")
        return await self._postpone(queue, attempts, receipt.error or "")

    def _newest_told(self) -> int:
        told = self._told.get(self._webhook.identity)
        return 0 if told is None else told.seq

    def _is_last(self, receipt: Receipt, attempts: int) -> bool:
        most = self._parts.limits.attempts
        return attempts >= (min(most, _REFUSED_ATTEMPTS) if receipt.status in _REFUSALS else most)

    async def _bury(self, queue: Queue, item: Recorded, attempts: int, error: str) -> bool:
        webhooks, webhook_id = self._parts.webhooks, self._webhook.id
        letter = DeadLetter(item.seq, kind_of(item.event), attempts, error, self._parts.now(), None)
        if not await webhooks.bury(webhook_id, queue.lane, queue.settled, letter):
            return False
        self._count("dead")
        logger.warning("webhook %d: event %d is a dead letter: %s", webhook_id, item.seq, error)
        queue.pop()
        if len(await webhooks.dead(webhook_id, 0, _DEAD_MAX)) == _DEAD_MAX:
            await webhooks.pause(webhook_id, f"it has {_DEAD_MAX} dead letters")
            return False
        return True

    async def _postpone(self, queue: Queue, attempts: int, error: str) -> bool:
        """Postpone with equal jitter: between half and the whole of a pause that doubles each time."""
        longest_s = min(_LONGEST_PAUSE_S, self._parts.limits.retry_s * 2.0 ** (attempts - 1))
        pause_s = longest_s * self._random.uniform(0.5, 1.0)
        queue.attempts = attempts
        queue.not_before = asyncio.get_running_loop().time() + pause_s
        return await self._parts.webhooks.postpone(
            self._webhook.id, queue.lane, queue.settled, attempts, pause_s, error
        )

    async def _idle(self, reach: int) -> bool:
        """Do something while nothing is due: replay one dead letter, or wait for the log, a retry or the next look."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._looked_s >= self._parts.pace.idle_s:
            if await self._replay_one():
                return True
            self._looked_s = now_s
        retries = [queue.not_before - now_s for queue in (self._urgent, self._ordinary) if queue.head is not None]
        pause_s = min([self._parts.pace.idle_s, *(pause_s for pause_s in retries if pause_s > 0)])
        await self._parts.heads.wait_beyond(self._webhook.cloud_id, reach, pause_s)
        return True

    async def _replay_one(self) -> bool:
        """Try the first dead letter that is to be replayed; return False if there is none.

        It tries only one, because events that come due meanwhile go first.
        """
        webhooks, webhook_id = self._parts.webhooks, self._webhook.id
        letter = next(iter(await webhooks.asked(webhook_id, 1)), None)
        if letter is None:
            return False
        (item,) = await self._parts.log.tail(self._webhook.cloud_id, letter.seq - 1, 1)
        receipt = await self._post(item)
        if receipt.taken:
            await webhooks.revive(webhook_id, letter.seq)
        else:
            await webhooks.die_again(webhook_id, letter.seq, receipt.error or "")
        return True

    async def _keep_places(self) -> bool:
        """Store how far the log was searched in vain, so that a restart does not search it again.

        While an event is being retried this is not done: its attempts and next retry belong to the place before it.
        """
        for queue in (self._urgent, self._ordinary):
            place = queue.place
            if queue.attempts == 0 and place - queue.settled >= _KEEP_PLACE:
                if not await self._parts.webhooks.settle(
                    self._webhook.id, queue.lane, queue.settled, place, delivered=0
                ):
                    return False
                queue.settled = place
        return True

    async def _post(self, item: Recorded) -> Receipt:
        webhook, parts = self._webhook, self._parts
        message = event_message(webhook.id, webhook.cloud, parts.render(item), max_bytes=parts.limits.max_bytes)
        receipt = await parts.poster.post(webhook.cloud, webhook.url, webhook.secret, message)
        self._count("delivered" if receipt.taken else "failed")
        return receipt

    def _count(self, outcome: str) -> None:
        DELIVERIES.labels(self._webhook.cloud, outcome).inc()
