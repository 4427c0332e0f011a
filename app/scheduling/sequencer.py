"""One cloud's decisions, in order, as durable batches (docs/architecture.md, *The life of a start request*).

Requests that arrive while a batch is being written form the next one. A batch is decided over the in-memory state,
appended to the log in one transaction, and only then answered (scheduling/appending.py). On an external clock a start
may need a table that is not there. It leaves the line, so nobody waits with it, and comes back to its head.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic
from typing import Protocol

from app.admission.batch import Batch, Outcome, Step, decide_more, decide_next, due_table_us, ids_to_look_up
from app.admission.quote import Quotes
from app.domain.errors import EpochsCrossed, LogUnavailable, Overloaded, ServiceStopping, TenureError
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.platform.database.bounds import waiting_since
from app.platform.telemetry.metrics import CloudMeter
from app.platform.telemetry.tracing import TRACES
from app.platform.turns import Turns
from app.scheduling.appending import Appender, Logs
from app.scheduling.store.log import LogAccess
from app.scheduling.submissions import Parking, Submission, has_written

logger = logging.getLogger(__name__)


class TableCachePort(Protocol):
    """The newest published tables, as this process knows them."""

    def newest(self, cloud_id: int) -> Quotes | None:
        """Return the table to decide with, or None."""

    async def load(self, cloud_id: int) -> Quotes | None:
        """Load the cloud's newest published table into memory, and return it."""

    async def wait_for(self, cloud_id: int, due_us: int) -> None:
        """Have the table of that due time computed, and return when it is published or will not come."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits on one cloud's queue and on the size of a batch, in operations."""

    queue: int
    batch: int


@dataclass(frozen=True, slots=True)
class SequencerParts:
    """The parts shared by all sequencers of a process. `now_us` is the server's clock, in microseconds."""

    logs: Logs
    tables: TableCachePort
    now_us: Callable[[], int]
    limits: QueueLimits


class Sequencer:
    """Decides one cloud's requests, batch by batch."""

    def __init__(self, find: Callable[[], Awaitable[int]], name: str, parts: SequencerParts) -> None:
        self._name = name
        self._parts = parts
        self._waiting: deque[Submission] = deque()
        self._waiting_count = 0
        self._meter = CloudMeter(name, lambda: self._waiting_count + self._parking.count)
        self._appender = Appender(find, parts.logs, self._meter.lost)
        self._woken = asyncio.Event()
        self._parking = Parking(
            lambda due_us: parts.tables.wait_for(self._appender.cloud_id, due_us), self._line_up, parts.limits.queue
        )
        # The task has a context of its own, because it does not belong to the request that happened to open the cloud.
        self._task = asyncio.create_task(self._run(), name=f"sequencer-{name}", context=Context())

    async def submit(self, steps: Sequence[Step]) -> list[Outcome]:
        """Return the outcomes of these steps, decided in order, when all of them are durable."""
        if self._waiting_count + len(steps) > self._parts.limits.queue:
            raise Overloaded(f"{self._waiting_count} operations wait for this cloud's log")
        submission = Submission(steps, asyncio.get_running_loop().create_future())
        self._waiting.append(submission)
        self._waiting_count += len(steps)
        self._woken.set()
        return await submission.answered

    async def state(self) -> Cloud:
        """Return the state as of the log's end. Read it before awaiting anything else, because it may change then."""
        return await self._appender.current()

    def end_waits(self) -> None:
        """Refuse what waits for a table, now and later, because the service is stopping."""
        self._parking.close()

    async def close(self) -> None:
        """Stop deciding, and answer waiting steps with an error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._parking.close()
        await self._appender.close()
        _fail(self._waiting, ServiceStopping("nothing was written"))
        self._meter.close()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                batch = self._take_batch()
                try:
                    with TRACES.span("batch", [one.origin for one in batch], cloud=self._name):
                        await self._settle(batch)
                except asyncio.CancelledError:
                    _fail(batch, LogUnavailable("the service is stopping"))
                    raise
                except Exception as error:  # the loop must survive any error; the waiting callers get it
                    if not isinstance(error, TenureError):
                        logger.exception("a batch failed", extra={"cloud": self._name})
                    _fail(batch, error)

    def _line_up(self, submissions: Sequence[Submission]) -> None:
        """Put those that have waited for a table back at the head of the line."""
        self._waiting.extendleft(reversed(submissions))
        for one in submissions:
            one.asked_s = monotonic()
            self._waiting_count += len(one.steps)
        self._woken.set()

    def _take_batch(self) -> list[Submission]:
        batch: list[Submission] = []
        count = 0
        while self._waiting and count < self._parts.limits.batch:
            batch.append(self._waiting.popleft())
            count += len(batch[-1].steps)
        self._waiting_count -= count
        return batch

    async def _settle(self, batch: Sequence[Submission]) -> None:
        """Decide, append and answer in one transaction; park what needs a newer table and has written nothing."""
        group = [one for one in batch if not one.answered.done()]
        if not group:
            return
        with waiting_since(min(one.asked_s for one in group)):
            outcomes = await self._decide_durably(group)
        end = 0
        for one in group:
            begin, end = end, end + len(one.steps)
            mine = outcomes[begin:end]
            if one.due_us is None or one.waited_us or any(has_written(outcome) for outcome in mine):
                one.answer(mine)
            else:
                self._parking.park(one, one.due_us)

    async def _decide_durably(self, group: Sequence[Submission]) -> list[Outcome]:
        """Return the outcomes of all steps, committed. Those that need a newer table, and what follows them in their
        submission, have EpochsCrossed for one.
        """
        outcomes: list[Outcome] = []
        steps = [step for one in group for step in one.steps]

        async def decide(cloud: Cloud, log: LogAccess) -> Sequence[Recorded]:
            ids = ids_to_look_up(cloud, steps, every_start=self._appender.looks_up_starts)
            past = await log.starts(self._appender.cloud_id, ids) if ids else {}
            with TRACES.span("decide", operations=len(steps), after_seq=cloud.seq):
                batch = await self._decide(cloud, steps, past, group)
                TRACES.add(events=len(batch.recorded))
            outcomes[:] = batch.outcomes
            return batch.recorded

        self._meter.committed(await self._appender.append_decided(decide))
        return outcomes

    async def _decide(
        self, cloud: Cloud, steps: Sequence[Step], past: Mapping[str, Recorded], group: Sequence[Submission]
    ) -> Batch:
        """Decide like `decide_batch`, letting other tasks run in between. Nobody sees the state meanwhile."""
        batch = Batch(dict(past), self._parts.logs.log.log_format)
        server_us, quotes = self._parts.now_us(), self._quotes(cloud)
        for one in group:
            one.due_us = None
        with Turns() as turns:
            while len(batch.outcomes) < len(steps):
                if not decide_more(batch, cloud, steps, server_us, quotes):
                    _decide_without(batch, cloud, steps, server_us, quotes, group)
                if turns.is_due():
                    await turns.give()
        return batch

    def _quotes(self, cloud: Cloud) -> Quotes | None:
        """Return the table to decide with. A table ahead of the state belongs to a log that was put back; skip it."""
        newest = self._parts.tables.newest(self._appender.cloud_id)
        return None if newest is None or newest.seq > cloud.seq else newest


def _decide_without(
    batch: Batch,
    cloud: Cloud,
    steps: Sequence[Step],
    server_us: int,
    quotes: Quotes | None,
    group: Sequence[Submission],
) -> None:
    """Decide a step whose table is missing if it has waited for it, else skip the rest of its submission.

    Deciding anything of the rest before it would break the order.
    """
    at, ends = len(batch.outcomes), [*accumulate(len(one.steps) for one in group)]
    index = bisect_right(ends, at)
    one = group[index]
    if one.waited_us and decide_next(batch, cloud, steps[at], server_us, quotes, one.waited_us):
        return
    one.due_us = due_table_us(cloud, steps[at], quotes)
    error = EpochsCrossed(
        "the operations before this one are decided, and this one needs a table that is not there yet"
    )
    batch.outcomes += [error] * (ends[index] - at)


def _fail(batch: Iterable[Submission], error: Exception) -> None:
    for submission in batch:
        submission.fail(error)
