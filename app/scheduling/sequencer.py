"""One cloud's decisions, in order, as durable batches (docs/architecture.md, *The life of a start request*).

Requests that arrive while a batch is being written wait and form the next one. A batch is decided over the in-memory
state, appended to the log in one transaction, and only then answered (scheduling/appending.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.admission.batch import Batch, Outcome, Step, decide_next, due_table_us, ids_to_look_up
from app.admission.quote import Quotes
from app.domain.errors import EpochsCrossed, LogUnavailable, Overloaded, TenureError
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.platform.telemetry.metrics import CloudMeter
from app.platform.telemetry.tracing import TRACES
from app.platform.turns import Turns
from app.scheduling.appending import Appender, Logs
from app.scheduling.store.log import LogAccess

logger = logging.getLogger(__name__)


class Tables(Protocol):
    """The newest published tables, as this process knows them."""

    def newest(self, cloud_id: int) -> Quotes | None:
        """The table to decide with."""

    async def load(self, cloud_id: int) -> Quotes | None:
        """Hold the cloud's newest published table, and return it."""

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


@dataclass(slots=True, eq=False)
class _Submission:
    """`waited_us`: the due time of the one table that this submission has waited for."""

    steps: Sequence[Step]
    answered: asyncio.Future[list[Outcome]]
    origin: Any = field(default_factory=TRACES.origin)
    outcomes: list[Outcome] = field(default_factory=list)
    waited_us: int = 0

    def undecided(self) -> Sequence[Step]:
        """The steps to decide yet; none where nobody waits for their outcomes any more."""
        return () if self.answered.done() else self.steps[len(self.outcomes) :]

    def refuse_rest(self) -> None:
        """Answer what is undecided with EpochsCrossed: its order holds only if nothing after it is decided either."""
        error = EpochsCrossed("the operations before this one took a new table, and this one needs a newer one still")
        for _ in self.undecided():
            _answer(self, error)


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
        """Decide, append, answer: in one transaction, or in several where a step must wait for its epoch's table.

        Nothing is held while a table is waited for: who reads the state does not wait with the batch.
        """
        waited_us = 0
        while pending := [(one, step) for one in batch for step in one.undecided()]:
            outcomes = await self._decide_durably([step for _, step in pending], waited_us)
            head = pending[len(outcomes) :]
            due_us = self._due_us(head[0][1]) if head else None
            for (submission, _), outcome in zip(pending, outcomes, strict=False):
                _answer(submission, outcome)
            if due_us is not None:
                await self._wait_for_table(head[0][0], due_us)
                waited_us = max(waited_us, due_us)

    async def _decide_durably(self, steps: Sequence[Step], waited_us: int) -> list[Outcome]:
        """Outcomes of the first steps (all but those that need a table newer than `waited_us`), committed."""
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
        """As `decide_batch`, with turns for whoever else this process serves; nobody sees the state in between."""
        batch, server_us, quotes = Batch(dict(past)), self._parts.now_us(), self._quotes(cloud)
        with Turns() as turns:
            for step in steps:
                if not decide_next(batch, cloud, step, server_us, quotes, waited_us):
                    break
                if turns.is_due():
                    await turns.give()
        return batch

    def _quotes(self, cloud: Cloud) -> Quotes | None:
        """Return the table to decide with. One of events that the state does not know is of a log that was put back."""
        newest = self._parts.tables.newest(self._appender.cloud_id)
        return None if newest is None or newest.seq > cloud.seq else newest

    def _due_us(self, step: Step) -> int | None:
        cloud = self._appender.cloud
        return due_table_us(cloud, step, self._quotes(cloud))

    async def _wait_for_table(self, submission: _Submission, due_us: int) -> None:
        """Wait until the table is there, will not come, or nobody waits for it; one table for each submission."""
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
    """Cancel the task where it still goes on; raise what it failed with."""
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    elif not task.cancelled():
        task.result()
