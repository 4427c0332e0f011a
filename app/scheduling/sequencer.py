"""One cloud's decisions, in order, as durable batches (docs/architecture.md, *The life of a start request*).

Requests that arrive while a batch is being written form the next one. A batch is decided over the in-memory state,
appended to the log in one transaction, and only then answered (scheduling/appending.py). On an external clock a start
may need a table that is not there. It leaves the line, so nobody waits with it, and comes back to its head.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass
from itertools import accumulate
from time import monotonic
from typing import Protocol

from app.admission.batch import Batch, decide_more, decide_next, due_table_us
from app.admission.extend import extensions_to_look_up
from app.admission.limits import ids_to_look_up
from app.admission.outcomes import Outcome, Step
from app.admission.quote import Quotes
from app.domain.errors import EpochsCrossed, LogUnavailable, Overloaded, ServiceStopping, TenureError
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.platform.asked import waiting_since
from app.platform.telemetry.metrics import CloudMeter
from app.platform.telemetry.tracing import TRACES
from app.platform.turns import Turns
from app.scheduling.appending import Appender, Logs
from app.scheduling.line import WaitingLine
from app.scheduling.store.extensions import decided_on
from app.scheduling.store.log import LogAccess
from app.scheduling.submissions import Parking, Submission

logger = logging.getLogger(__name__)

MOST_EVENTS = 5000
"""The number of events after which a transaction takes no further step. One step may have more (admission/decide.py).
"""

MOST_DECIDING_S = 0.05
"""The time after which a transaction takes no further step if others wait. What is left of long ones follows them."""

_Pending = Sequence[tuple[Submission, Sequence[Step]]]
"""Submissions in their order, each with its steps that are still to decide."""


class TableCachePort(Protocol):
    """The newest published tables, as this process knows them."""

    def newest(self, cloud_id: int) -> Quotes | None:
        """Return the table to decide with, or None."""

    async def load(self, cloud_id: int) -> Quotes | None:
        """Load the cloud's newest published table into memory, and return it."""

    async def wait_for(self, cloud_id: int, due_us: int, since_s: float) -> None:
        """Have the table of that due time computed, and return when it is published or will not come.

        The time allowed counts from `since_s`, of the monotonic clock.
        """


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
        self._waiting = WaitingLine()
        self._meter = CloudMeter(name, lambda: self._waiting.count + self._parking.count)
        self._woken = asyncio.Event()
        self._appender = Appender(find, parts.logs, self._meter.lost, self._woken.set)
        self._parking = Parking(
            lambda due_us, since_s: parts.tables.wait_for(self._appender.cloud_id, due_us, since_s),
            self._line_up,
            parts.limits.queue,
        )
        # The task has a context of its own, because it does not belong to the request that happened to open the cloud.
        self._task = asyncio.create_task(self._run(), name=f"sequencer-{name}", context=Context())

    async def submit(self, steps: Sequence[Step]) -> list[Outcome]:
        """Return the outcomes of these steps, decided in order, when all of them are durable."""
        if self._waiting.count + len(steps) > self._parts.limits.queue:
            raise Overloaded(f"{self._waiting.count} operations wait for this cloud's log")
        submission = Submission(steps, asyncio.get_running_loop().create_future())
        self._waiting.add(submission)
        self._woken.set()
        with self._appender.askers.joined():
            return await submission.answered

    async def state(self) -> Cloud:
        """Return the state as of the log's end. Read it before awaiting anything else, because it may change then."""
        return await self._appender.current()

    def quotes(self, cloud: Cloud) -> Quotes | None:
        """Return the table to decide with. A table ahead of the state belongs to a log that was put back; skip it."""
        newest = self._parts.tables.newest(self._appender.cloud_id)
        return None if newest is None or newest.seq > cloud.seq else newest

    def end_waits(self) -> None:
        """Refuse what waits for a table, now and later, because the service is stopping."""
        self._parking.close()

    async def close(self) -> None:
        """Stop deciding, and answer waiting steps with an error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._parking.close()
        await self._appender.close()
        while self._waiting:
            _fail(self._waiting.take(self._waiting.count + 1), ServiceStopping("nothing was written"))
        self._meter.close()

    async def _run(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while self._waiting:
                batch = self._waiting.take(self._parts.limits.batch)
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
            await self._keep_up()

    async def _keep_up(self) -> None:
        """Read what other processes wrote. Who decides next gets the error, if there is one."""
        try:
            await self._appender.keep_up()
        except Exception as error:  # the loop must survive any error
            if not isinstance(error, TenureError):
                logger.exception("what others wrote could not be read", extra={"cloud": self._name})

    def _line_up(self, submissions: Sequence[Submission]) -> None:
        """Put those that have waited for a table back at the head of the line."""
        for one in submissions:
            one.asked_s = monotonic()
        self._waiting.add_first(submissions)
        self._woken.set()

    async def _settle(self, batch: Sequence[Submission]) -> None:
        """Decide, append and answer: in one transaction, or in several if the steps have very many events.

        What needs a newer table and has written nothing is parked. What has had its time goes back to the line if
        others wait.
        """
        since_s = min(one.asked_s for one in batch)
        while pending := [(one, steps) for one in batch if (steps := one.undecided())]:
            with waiting_since(since_s):
                outcomes = await self._decide_durably(pending)
            end = 0
            for one, steps in pending:
                begin, end = end, end + len(steps)
                one.add(outcomes[begin:end])
                if one.may_wait() and one.due_us is not None:
                    self._parking.park(one, one.due_us)
            batch = [one for one in batch if one.due_us is None]
            rest = [one for one in batch if one.undecided()]
            if rest and self._waiting:
                self._waiting.put_back(rest)
                return

    async def _decide_durably(self, pending: _Pending) -> list[Outcome]:
        """Return the outcomes of the first steps, committed. They end early after many events.

        A step that needs a newer table, and what follows it in its submission, have EpochsCrossed for one.
        """
        outcomes: list[Outcome] = []
        steps = [step for _, some in pending for step in some]

        async def decide(cloud: Cloud, log: LogAccess) -> Sequence[Recorded]:
            ids = ids_to_look_up(cloud, steps, every_start=self._appender.looks_up_starts)
            batch = Batch(
                await log.starts(self._appender.cloud_id, ids) if ids else {}, self._parts.logs.log.log_format
            )
            asked = extensions_to_look_up(cloud, steps)
            batch.extended |= await decided_on(log, self._appender.cloud_id, asked) if asked else {}
            with TRACES.span("decide", operations=len(steps), after_seq=cloud.seq):
                await self._decide(batch, cloud, steps, pending)
                TRACES.add(events=len(batch.recorded))
            outcomes[:] = batch.outcomes
            return batch.recorded

        self._meter.committed(await self._appender.append_decided(decide))
        return outcomes

    async def _decide(self, batch: Batch, cloud: Cloud, steps: Sequence[Step], pending: _Pending) -> None:
        """Decide like `decide_batch`, letting other tasks run in between. Nobody sees the state meanwhile."""
        server_us, quotes = self._parts.now_us(), self.quotes(cloud)
        for one, _ in pending:
            one.due_us = None
        with Turns() as turns:
            began = monotonic()
            while len(batch.outcomes) < len(steps) and (batch.unapplied or not self._has_had_enough(batch, began)):
                if not decide_more(batch, cloud, steps, server_us, quotes):
                    _decide_without(batch, cloud, server_us, quotes, pending)
                if turns.is_due():
                    await turns.give()

    def _has_had_enough(self, batch: Batch, began_s: float) -> bool:
        """Return True if a transaction has very many events, or took its time while others came to wait."""
        is_long = bool(batch.outcomes) and monotonic() - began_s > MOST_DECIDING_S
        return len(batch.recorded) >= MOST_EVENTS or (is_long and bool(self._waiting))


def _decide_without(batch: Batch, cloud: Cloud, server_us: int, quotes: Quotes | None, pending: _Pending) -> None:
    """Decide a step whose table is missing if it has waited for it, else skip the rest of its submission.

    Deciding anything of the rest before it would break the order.
    """
    at, ends = len(batch.outcomes), [*accumulate(len(steps) for _, steps in pending)]
    index = bisect_right(ends, at)
    one, steps = pending[index]
    step = steps[at - ends[index]]
    if one.waited_us and decide_next(batch, cloud, step, server_us, quotes, one.waited_us):
        return
    one.due_us = due_table_us(cloud, step, quotes)
    error = EpochsCrossed("what comes before is decided, and this operation needs a table that is not there yet")
    batch.outcomes += [error] * (ends[index] - at)


def _fail(batch: Iterable[Submission], error: Exception) -> None:
    for submission in batch:
        submission.fail(error)
