"""One cloud's decisions, in order, as durable batches (design/architecture.md, *The life of a start request*).

Requests that arrive while a batch is being written wait and form the next one. A batch is decided over the in-memory
state, appended to the log in one transaction, and only then answered. A batch that appends nothing is answered only
where its state is still the log's last one, so no answer is older than what any process has acknowledged before it was
asked. Where another process was first, the log's tail is read and the batch decided again; for a while after such a
conflict this process takes the cloud's lock before it decides, so that two busy processes take turns instead of racing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any, Protocol

from app.admission.batch import Batch, Outcome, Step, decide_next, due_table_us, ids_to_look_up
from app.admission.quote import Quotes
from app.domain.errors import LogContended, LogUnavailable, Overloaded, TenureError
from app.domain.events import Recorded
from app.engine.cloud import Cloud
from app.services.growth import Growth
from app.services.states import catch_up, load_state
from app.services.turns import Turns
from app.store.log import EventLog, InstanceTaken, LogAccess, SeqConflict
from app.store.snapshots import Snapshots
from app.telemetry.metrics import APPEND_S, CloudMeter
from app.telemetry.tracing import TRACES

logger = logging.getLogger(__name__)

_TRIES = 20
_TAKE_TURNS_S = 5.0


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
    """What all sequencers of a process share.

    `now_us` is the server's clock, in microseconds; `growth` is told of every commit.
    """

    log: EventLog
    snapshots: Snapshots
    tables: Tables
    now_us: Callable[[], int]
    limits: Limits
    growth: Growth


class _StateBehind(Exception):
    """The state that was decided on, without writing anything, is not the newest one."""


@dataclass(slots=True)
class _Submission:
    steps: Sequence[Step]
    answered: asyncio.Future[list[Outcome]]
    origin: Any = field(default_factory=TRACES.origin)
    outcomes: list[Outcome] = field(default_factory=list)


class Sequencer:
    """Decides one cloud's requests; see the module's docstring."""

    def __init__(self, cloud_id: int, name: str, parts: Parts) -> None:
        self.cloud_id = cloud_id
        self._name = name
        self._parts = parts
        self._cloud = Cloud()
        self._in_sync = False
        self._look_up_starts = False
        self._take_turns_until = 0.0
        self._waiting: deque[_Submission] = deque()
        self._waiting_count = 0
        self._meter = CloudMeter(name, lambda: self._waiting_count)
        self._woken = asyncio.Event()
        self._deciding = asyncio.Lock()
        # In a context of its own: what it does is not the work of the request that happened to open the cloud.
        self._task = asyncio.create_task(self._run(), name=f"sequencer-{cloud_id}", context=Context())

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
        async with self._deciding:
            self._in_sync = False
            await self._catch_up()
            return self._cloud

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
                    async with self._deciding:
                        with TRACES.span("batch", [one.origin for one in batch], cloud=self._name):
                            await self._settle(batch)
                except asyncio.CancelledError:
                    _fail(batch, LogUnavailable("the service is stopping"))
                    raise
                except Exception as error:  # the loop must outlive any fault; whoever waits gets it
                    if not isinstance(error, TenureError):
                        logger.exception("a batch failed", extra={"cloud": self._name})
                    self._forget_undecided()
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
            await self._catch_up()
            await self._wait_for_table(pending[0][1])
            outcomes = await self._decide_durably([step for _, step in pending])
            for (submission, _), outcome in zip(pending, outcomes, strict=False):
                _answer(submission, outcome)
            pending = pending[len(outcomes) :]

    async def _decide_durably(self, steps: Sequence[Step]) -> list[Outcome]:
        """Outcomes of the first steps (all but those that need a newer table), committed."""
        for _ in range(_TRIES):
            try:
                async with self._turn() as log:
                    batch = await self._decide_and_append(steps, log)
            except SeqConflict:
                self._meter.lost("conflict")
                self._take_turns_until = monotonic() + _TAKE_TURNS_S
                self._forget_undecided()
                await self._catch_up()
            except _StateBehind:
                self._forget_undecided()
                await self._catch_up()
            except InstanceTaken:
                self._meter.lost("instance_taken")
                self._look_up_starts = True
                self._forget_undecided()
                await self._catch_up()
            except LogUnavailable:
                self._meter.lost("unavailable")
                raise
            else:
                self._cloud.commit()
                self._parts.growth.tell(self.cloud_id, self._cloud.seq)
                self._meter.committed(batch.recorded)
                self._look_up_starts = False
                return batch.outcomes
        raise LogContended(f"other writers were first {_TRIES} times in a row; nothing was decided")

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[LogAccess]:
        """What to read and to append to: the log itself, or for a while after a conflict a turn at it."""
        if monotonic() >= self._take_turns_until:
            yield self._parts.log
            return
        async with self._parts.log.locked(self.cloud_id) as turn:
            await catch_up(self._cloud, self.cloud_id, turn)
            yield turn

    async def _decide_and_append(self, steps: Sequence[Step], log: LogAccess) -> Batch:
        cloud = self._cloud
        ids = ids_to_look_up(cloud, steps, every_start=self._look_up_starts)
        past = await log.starts(self.cloud_id, ids) if ids else {}
        with TRACES.span("decide", operations=len(steps), after_seq=cloud.seq):
            batch = await self._decide(steps, past)
            TRACES.add(events=len(batch.recorded))
        if batch.recorded:
            began = perf_counter()
            with TRACES.span("append", events=len(batch.recorded)):
                await log.append(self.cloud_id, batch.recorded)
            APPEND_S.observe(perf_counter() - began)
        elif await log.last_seq(self.cloud_id) != cloud.seq:
            # Nothing is written, so no key says whether the state was the newest one: these answers may be of the past.
            raise _StateBehind
        return batch

    async def _decide(self, steps: Sequence[Step], past: Mapping[str, Recorded]) -> Batch:
        """As `decide_batch`, with turns for whoever else this process serves; nobody sees the state in between."""
        batch, turns = Batch(dict(past)), Turns()
        server_us, quotes = self._parts.now_us(), self._parts.tables.newest(self.cloud_id)
        for step in steps:
            if not decide_next(batch, self._cloud, step, server_us, quotes):
                break
            if turns.is_due():
                await turns.give()
        return batch

    async def _wait_for_table(self, step: Step) -> None:
        due_us = due_table_us(self._cloud, step, self._parts.tables.newest(self.cloud_id))
        if due_us is not None:
            with TRACES.span("wait for table"):
                await self._parts.tables.wait_for(self.cloud_id, due_us)

    async def _catch_up(self) -> None:
        """Fold what the log holds beyond the state: at first use, after a conflict, after a failed append."""
        if self._in_sync:
            return
        if self._cloud.seq == 0:
            self._cloud = await load_state(self.cloud_id, self._parts.log, self._parts.snapshots)
        else:
            await catch_up(self._cloud, self.cloud_id, self._parts.log)
        self._in_sync = True

    def _forget_undecided(self) -> None:
        """Leave no trace of a batch that was not committed; if its outcome is unknown, the log will tell."""
        self._cloud.rollback()
        self._in_sync = False


def _answer(submission: _Submission, outcome: Outcome) -> None:
    submission.outcomes.append(outcome)
    if len(submission.outcomes) == len(submission.steps) and not submission.answered.done():
        submission.answered.set_result(submission.outcomes)


def _fail(batch: Iterable[_Submission], error: Exception) -> None:
    for submission in batch:
        if not submission.answered.done():
            submission.answered.set_exception(error)
