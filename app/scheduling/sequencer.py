"""One cloud's decisions, in order, as durable batches (docs/architecture.md, *The life of a start request*).

Requests that arrive while a batch is being written form the next one. A batch is decided over the in-memory state,
appended to the log in one transaction, and only then answered (scheduling/appending.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Protocol

from app.admission.batch import Batch, Outcome, Step, decide_more, due_table_us, ids_to_look_up
from app.admission.quote import Quotes
from app.domain.errors import EpochsCrossed, LogUnavailable, Overloaded, TenureError
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.platform.database.bounds import waiting_since
from app.platform.telemetry.metrics import CloudMeter
from app.platform.telemetry.tracing import TRACES
from app.platform.turns import Turns
from app.scheduling.appending import Appender, Logs
from app.scheduling.store.log import LogAccess

logger = logging.getLogger(__name__)

MOST_EVENTS = 5000
"""The number of events after which a transaction takes no further step. One step may have more (admission/decide.py).
"""


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


@dataclass(slots=True, eq=False)
class _Submission:
    """Steps submitted together. `waited_us`: the due time of the one table that they have waited for."""

    steps: Sequence[Step]
    answered: asyncio.Future[list[Outcome]]
    origin: Any = field(default_factory=TRACES.origin)
    outcomes: list[Outcome] = field(default_factory=list)
    waited_us: int = 0
    asked_s: float = field(default_factory=monotonic)

    def undecided(self) -> Sequence[Step]:
        """Return the steps still to decide; none if nobody waits for their outcomes any more."""
        return () if self.answered.done() else self.steps[len(self.outcomes) :]

    def refuse_rest(self) -> None:
        """Answer the undecided steps with EpochsCrossed. Deciding any of them later would break their order."""
        error = EpochsCrossed("the operations before this one took a new table, and this one needs a newer one still")
        for _ in self.undecided():
            _answer(self, error)


class Sequencer:
    """Decides one cloud's requests, batch by batch."""

    def __init__(self, find: Callable[[], Awaitable[int]], name: str, parts: SequencerParts) -> None:
        self._name = name
        self._parts = parts
        self._waiting: deque[_Submission] = deque()
        self._waiting_count = 0
        self._meter = CloudMeter(name, lambda: self._waiting_count)
        self._appender = Appender(find, parts.logs, self._meter.lost)
        self._woken = asyncio.Event()
        # The task has a context of its own, because it does not belong to the request that happened to open the cloud.
        self._task = asyncio.create_task(self._run(), name=f"sequencer-{name}", context=Context())

    async def submit(self, steps: Sequence[Step]) -> list[Outcome]:
        """Return the outcomes of these steps, decided in order, when all of them are durable."""
        if self._waiting_count + len(steps) > self._parts.limits.queue:
            raise Overloaded(f"{self._waiting_count} operations wait for this cloud's log")
        submission = _Submission(steps, asyncio.get_running_loop().create_future())
        self._waiting.append(submission)
        self._waiting_count += len(steps)
        self._woken.set()
        return await submission.answered

    async def state(self) -> Cloud:
        """Return the state as of the log's end. Read it before awaiting anything else, because it may change then."""
        return await self._appender.current()

    async def close(self) -> None:
        """Stop deciding, and answer waiting steps with an error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._appender.close()
        _fail(self._waiting, LogUnavailable("the service is stopping"))
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

    def _take_batch(self) -> list[_Submission]:
        batch: list[_Submission] = []
        count = 0
        while self._waiting and count < self._parts.limits.batch:
            batch.append(self._waiting.popleft())
            count += len(batch[-1].steps)
        self._waiting_count -= count
        return batch

    async def _settle(self, batch: Sequence[_Submission]) -> None:
        """Decide, append and answer: in one transaction, or in several if the steps have very many events, or if one
        must wait for its epoch's table.

        Nothing is locked while waiting for a table, so readers of the state do not wait with the batch.
        """
        waited_us, since_s = 0, batch[0].asked_s
        while pending := [(one, step) for one in batch for step in one.undecided()]:
            with waiting_since(since_s):
                outcomes = await self._decide_durably([step for _, step in pending], waited_us)
            head = pending[len(outcomes) :]
            due_us = self._due_us(head[0][1]) if head else None
            for (submission, _), outcome in zip(pending, outcomes, strict=False):
                _answer(submission, outcome)
            if due_us is not None and due_us > waited_us:
                await self._wait_for_table(head[0][0], due_us)
                waited_us, since_s = max(waited_us, due_us), monotonic()

    async def _decide_durably(self, steps: Sequence[Step], waited_us: int) -> list[Outcome]:
        """Return the outcomes of the first steps, committed.

        They end before one that needs a table newer than `waited_us`, or after many events.
        """
        outcomes: list[Outcome] = []

        async def decide(cloud: Cloud, log: LogAccess) -> Sequence[Recorded]:
            ids = ids_to_look_up(cloud, steps, every_start=self._appender.looks_up_starts)
            past = await log.starts(self._appender.cloud_id, ids) if ids else {}
            with TRACES.span("decide", operations=len(steps), after_seq=cloud.seq):
                batch = await self._decide(cloud, steps, past, waited_us)
                TRACES.add(events=len(batch.recorded))
            outcomes[:] = batch.outcomes
            return batch.recorded

        self._meter.committed(await self._appender.append_decided(decide))
        return outcomes

    async def _decide(self, cloud: Cloud, steps: Sequence[Step], past: Mapping[str, Recorded], waited_us: int) -> Batch:
        """Decide like `decide_batch`, letting other tasks run in between. Nobody sees the state meanwhile."""
        batch = Batch(dict(past), self._parts.logs.log.log_format)
        server_us, quotes = self._parts.now_us(), self._quotes(cloud)
        with Turns() as turns:
            while len(batch.outcomes) < len(steps) and (batch.unapplied or len(batch.recorded) < MOST_EVENTS):
                if not decide_more(batch, cloud, steps, server_us, quotes, waited_us):
                    break
                if turns.is_due():
                    await turns.give()
        return batch

    def _quotes(self, cloud: Cloud) -> Quotes | None:
        """Return the table to decide with. A table ahead of the state belongs to a log that was put back; skip it."""
        newest = self._parts.tables.newest(self._appender.cloud_id)
        return None if newest is None or newest.seq > cloud.seq else newest

    def _due_us(self, step: Step) -> int | None:
        cloud = self._appender.cloud
        return due_table_us(cloud, step, self._quotes(cloud))

    async def _wait_for_table(self, submission: _Submission, due_us: int) -> None:
        """Wait until the table is published, will not come, or nobody waits. A submission waits for one only."""
        if submission.waited_us:
            return submission.refuse_rest()
        submission.waited_us = due_us
        with TRACES.span("wait for table"):
            coming = asyncio.create_task(self._parts.tables.wait_for(self._appender.cloud_id, due_us))
            either: list[asyncio.Future[Any]] = [coming, submission.answered]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(coming)


def _answer(submission: _Submission, outcome: Outcome) -> None:
    submission.outcomes.append(outcome)
    if len(submission.outcomes) == len(submission.steps) and not submission.answered.done():
        submission.answered.set_result(submission.outcomes)


def _fail(batch: Iterable[_Submission], error: Exception) -> None:
    for submission in batch:
        if not submission.answered.done():
            submission.answered.set_exception(error)


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel the task if it still runs; raise its error if it failed."""
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    elif not task.cancelled():
        task.result()
