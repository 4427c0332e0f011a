"""One cloud's decisions, in order, as durable batches (design/architecture.md, *The life of a start request*).

Requests that arrive while a batch is being written wait and form the next one. A batch is decided over the in-memory
state, appended to the log in one transaction, and only then answered (services/appending.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.admission.batch import Batch, Outcome, Step, decide_batch, due_table_us, ids_to_look_up
from app.admission.quote import Quotes
from app.domain.errors import LogUnavailable, Overloaded, TenureError
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.services.appending import Appender, Logs
from app.store.log import LogAccess
from app.telemetry.metrics import CloudMeter
from app.telemetry.tracing import TRACES

logger = logging.getLogger(__name__)


class Tables(Protocol):
    """The newest published tables, as this process knows them."""

    def newest(self, cloud_id: int) -> Quotes | None:
        """The table to decide with."""

    async def wait_for(self, cloud_id: int, due_us: int) -> None:
        """Have the table of that due time computed, and return when it is there or will not come."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one cloud's queue holds and takes at once, in operations."""

    queue: int
    batch: int


@dataclass(frozen=True, slots=True)
class Parts:
    """What all sequencers of a process share. `now_us` is the server's clock, in microseconds."""

    logs: Logs
    tables: Tables
    now_us: Callable[[], int]
    limits: Limits


@dataclass(slots=True)
class _Submission:
    steps: Sequence[Step]
    answered: asyncio.Future[list[Outcome]]
    origin: Any = field(default_factory=TRACES.origin)
    outcomes: list[Outcome] = field(default_factory=list)


class Sequencer:
    """Decides one cloud's requests; see the module's docstring."""

    def __init__(self, find: Callable[[], Awaitable[int]], name: str, parts: Parts) -> None:
        self._name = name
        self._parts = parts
        self._waiting: deque[_Submission] = deque()
        self._waiting_count = 0
        self._meter = CloudMeter(name, lambda: self._waiting_count)
        self._appender = Appender(find, parts.logs, self._meter.lost)
        self._woken = asyncio.Event()
        # In a context of its own: what it does is not the work of the request that happened to open the cloud.
        self._task = asyncio.create_task(self._run(), name=f"sequencer-{name}", context=Context())

    async def submit(self, steps: Sequence[Step]) -> list[Outcome]:
        """The outcomes of these steps, decided in order; returns when all are durable."""
        if self._waiting_count + len(steps) > self._parts.limits.queue:
            raise Overloaded(f"{self._waiting_count} operations wait for this cloud's log")
        submission = _Submission(steps, asyncio.get_running_loop().create_future())
        self._waiting.append(submission)
        self._waiting_count += len(steps)
        self._woken.set()
        return await submission.answered

    async def state(self) -> Cloud:
        """The state as of the log's end. To be read at once: it may change when the caller awaits anything."""
        return await self._appender.current()

    async def close(self) -> None:
        """Stop deciding; what waits is answered with an error."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
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
                except Exception as error:  # the loop must outlive any fault; whoever waits gets it
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
        """Decide, append, answer: in one transaction, or in several where a step must wait for its epoch's table."""
        pending = [(submission, step) for submission in batch for step in submission.steps]
        while pending:
            await self._wait_for_table(await self._appender.known(), pending[0][1])
            outcomes = await self._decide_durably([step for _, step in pending])
            for (submission, _), outcome in zip(pending, outcomes, strict=False):
                _answer(submission, outcome)
            pending = pending[len(outcomes) :]

    async def _decide_durably(self, steps: Sequence[Step]) -> list[Outcome]:
        """Outcomes of the first steps (all but those that need a newer table), committed."""
        batch = Batch()

        async def decide(cloud: Cloud, log: LogAccess) -> Sequence[Recorded]:
            nonlocal batch
            batch = await self._decide(cloud, log, steps)
            return batch.recorded

        await self._appender.append_decided(decide)
        self._meter.committed(batch.recorded)
        return batch.outcomes

    async def _decide(self, cloud: Cloud, log: LogAccess, steps: Sequence[Step]) -> Batch:
        appender, parts = self._appender, self._parts
        ids = ids_to_look_up(cloud, steps, every_start=appender.looks_up_starts)
        past = await log.starts(appender.cloud_id, ids) if ids else {}
        with TRACES.span("decide", operations=len(steps), after_seq=cloud.seq):
            batch = decide_batch(cloud, steps, past, parts.now_us(), self._quotes(cloud))
            TRACES.add(events=len(batch.recorded))
        return batch

    def _quotes(self, cloud: Cloud) -> Quotes | None:
        """Return the table to decide with. One of events that the state does not know is of a log that was put back."""
        newest = self._parts.tables.newest(self._appender.cloud_id)
        return None if newest is None or newest.seq > cloud.seq else newest

    async def _wait_for_table(self, cloud: Cloud, step: Step) -> None:
        cloud_id = self._appender.cloud_id
        due_us = due_table_us(cloud, step, self._parts.tables.newest(cloud_id))
        if due_us is not None:
            with TRACES.span("wait for table"):
                await self._parts.tables.wait_for(cloud_id, due_us)


def _answer(submission: _Submission, outcome: Outcome) -> None:
    submission.outcomes.append(outcome)
    if len(submission.outcomes) == len(submission.steps) and not submission.answered.done():
        submission.answered.set_result(submission.outcomes)


def _fail(batch: Iterable[_Submission], error: Exception) -> None:
    for submission in batch:
        if not submission.answered.done():
            submission.answered.set_exception(error)
