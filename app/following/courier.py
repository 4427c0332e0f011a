"""The courier of one webhook: it sends the events of both lanes and notes what came of each before it goes on."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from random import Random

from app.domain.errors import LogNewer
from app.domain.events import Recorded
from app.domain.events.registry import KINDS, URGENT, kind_of
from app.following.noting import noted
from app.following.store.webhooks import PUT_BACK_CODE, DeadLetter, Identity, Lane, LaneProgress, Webhook, Webhooks
from app.following.trials import TrialSender
from app.platform.database.locks import Locks
from app.platform.outbound.messages import event_message
from app.platform.outbound.posting import Poster, Receipt
from app.platform.telemetry.metrics import DELIVERIES
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.log import EventLog
from app.scheduling.store.pages import LogPart

logger = logging.getLogger(__name__)

_GONE = 410
_REFUSALS = frozenset({400, 406, 409, 411, 413, 414, 415, 422, 431})
"""Answers that say something of the message and nothing of the receiver's health: trying for hours helps nobody."""
_REFUSED_ATTEMPTS = 3
_LONGEST_PAUSE_S = 3600.0
_DEAD_MAX = 1000
_SCANNED_AT_ONCE = 5000
_READ_AT_ONCE = 100
_READ_BYTES = 1 << 18
_KEEP_PLACE = 1000
"""Events without interest that are read again after a restart, at most, before the place is kept."""


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


@dataclass(frozen=True, slots=True)
class Memory:
    """The events that receivers have taken from this worker, which the database may not know.

    `told`: for each webhook the newest event that its receiver has taken from this worker. `unsettled`: for a lane the
    event that was taken and not settled, because the database took no writes. It is settled later, and not sent again.
    """

    told: dict[Identity, Recorded] = field(default_factory=dict)
    unsettled: dict[tuple[Identity, Lane], Recorded] = field(default_factory=dict)

    def take(self, identity: Identity, lane: Lane, item: Recorded) -> None:
        """Remember that the receiver has taken the lane's next event."""
        self.unsettled[identity, lane] = item
        newest = self.told.get(identity)
        if newest is None or item.seq > newest.seq:
            self.told[identity] = item

    def forget(self, identity: Identity) -> None:
        """Forget what the receiver has taken."""
        self.told.pop(identity, None)
        for lane in Lane:
            self.unsettled.pop((identity, lane), None)


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
            found = LogPart()
            if self._kinds:
                found = await log.of_kinds(cloud_id, self._scanned, up_to, self._kinds, _READ_AT_ONCE, _READ_BYTES)
            self._items.extend(found)
            self._scanned = found[-1].seq if found.is_cut or len(found) == _READ_AT_ONCE else up_to

    def pop(self) -> None:
        """Settle the head."""
        self.settled = self._items.popleft().seq
        self.attempts, self.not_before = 0, 0.0


class Courier:
    """Delivers to one webhook, until it is paused or deleted, or another courier takes over."""

    def __init__(self, webhook: Webhook, parts: DeliveryParts, memory: Memory) -> None:
        self._webhook = webhook
        self._parts = parts
        self._memory = memory
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
        webhook, told = self._webhook, self._memory.told.get(self._webhook.identity)
        last_seq = await self._parts.log.last_seq(webhook.cloud_id)
        place = max(webhook.urgent.seq, webhook.ordinary.seq)
        if told is not None and (await self._parts.log.at(webhook.cloud_id, [told.seq])).get(told.seq) != told:
            why = f"the receiver has taken event {told.seq} of a log that was put back and has {last_seq} events now"
        elif place > last_seq:
            why = f"its place is event {place} of a log that was put back and has {last_seq} events now"
        else:
            return False
        logger.warning("webhook %d is paused: %s", webhook.id, why)
        await self._pause(f"{PUT_BACK_CODE}: {why}")
        self._memory.forget(webhook.identity)
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
        if self._memory.unsettled.get((self._webhook.identity, queue.lane)) == item:
            return await self._settle(queue, item)
        receipt = await self._post(item)
        attempts = queue.attempts + 1
        if receipt.taken:
            self._memory.take(self._webhook.identity, queue.lane, item)
            return await self._settle(queue, item)
        if receipt.status == _GONE:
            await self._pause("the receiver answered 410: it is gone")
            return False
        if self._is_last(receipt, attempts):
            return await self._bury(queue, item, attempts, receipt.error or "")
        return await self._postpone(queue, attempts, receipt.error or "")

    async def _settle(self, queue: Queue, item: Recorded) -> bool:
        webhook = self._webhook
        going = await noted(
            webhook.id,
            lambda: self._parts.webhooks.settle(
                webhook.id, queue.lane, queue.settled, item.seq, delivered=1, at_us=item.event.at_us
            ),
        )
        self._memory.unsettled.pop((webhook.identity, queue.lane), None)
        queue.pop()
        return going

    async def _pause(self, why: str) -> None:
        await noted(self._webhook.id, lambda: self._parts.webhooks.pause(self._webhook.id, why))

    def _is_last(self, receipt: Receipt, attempts: int) -> bool:
        most = self._parts.limits.attempts
        return attempts >= (min(most, _REFUSED_ATTEMPTS) if receipt.status in _REFUSALS else most)

    async def _bury(self, queue: Queue, item: Recorded, attempts: int, error: str) -> bool:
        webhooks, webhook_id = self._parts.webhooks, self._webhook.id
        letter = DeadLetter(item.seq, kind_of(item.event), attempts, error, self._parts.now(), None)
        if not await noted(webhook_id, lambda: webhooks.bury(webhook_id, queue.lane, queue.settled, letter)):
            return False
        self._count("dead")
        logger.warning("webhook %d: event %d is a dead letter: %s", webhook_id, item.seq, error)
        queue.pop()
        if len(await webhooks.dead(webhook_id, 0, _DEAD_MAX)) == _DEAD_MAX:
            await self._pause(f"it has {_DEAD_MAX} dead letters")
            return False
        return True

    async def _postpone(self, queue: Queue, attempts: int, error: str) -> bool:
        """Postpone with equal jitter: between half and the whole of a pause that doubles each time."""
        longest_s = min(_LONGEST_PAUSE_S, self._parts.limits.retry_s * 2.0 ** (attempts - 1))
        pause_s = longest_s * self._random.uniform(0.5, 1.0)
        queue.attempts = attempts
        queue.not_before = asyncio.get_running_loop().time() + pause_s
        webhooks, webhook_id = self._parts.webhooks, self._webhook.id
        return await noted(
            webhook_id, lambda: webhooks.postpone(webhook_id, queue.lane, queue.settled, attempts, pause_s, error)
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
            await noted(webhook_id, lambda: webhooks.revive(webhook_id, letter.seq))
        else:
            await noted(webhook_id, lambda: webhooks.die_again(webhook_id, letter.seq, receipt.error or ""))
        return True

    async def _keep_places(self) -> bool:
        """Store how far the log was searched in vain, so that a restart does not search it again.

        While an event is being retried this is not done: its attempts and next retry belong to the place before it.
        """
        for queue in (self._urgent, self._ordinary):
            far = queue.attempts == 0 and queue.place - queue.settled >= _KEEP_PLACE
            if far and not await self._keep_place(queue, queue.place):
                return False
        return True

    async def _keep_place(self, queue: Queue, place: int) -> bool:
        webhooks, webhook_id = self._parts.webhooks, self._webhook.id
        going = await noted(
            webhook_id, lambda: webhooks.settle(webhook_id, queue.lane, queue.settled, place, delivered=0)
        )
        queue.settled = place
        return going

    async def _post(self, item: Recorded) -> Receipt:
        webhook, parts = self._webhook, self._parts
        message = event_message(webhook.id, webhook.cloud, parts.render(item), max_bytes=parts.limits.max_bytes)
        receipt = await parts.poster.post(webhook.cloud, webhook.url, webhook.secret, message)
        self._count("delivered" if receipt.taken else "failed")
        return receipt

    def _count(self, outcome: str) -> None:
        DELIVERIES.labels(self._webhook.cloud, outcome).inc()
