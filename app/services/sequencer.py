"""One cloud's decisions, in order, as durable batches (docs/architecture.md, *The life of a start request*).

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
from app.domain.errors import EpochsCrossed, LogContended, LogUnavailable, Overloaded, TenureError
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

    def __init__(self, cloud_id: int, name: str, parts: Parts) -> None:
        self.cloud_id = cloud_id
        self._name = name
        self._parts = parts
        self._cloud = Cloud()
        self._loading: asyncio.Task[Cloud] | None = None
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
        for task in filter(None, (self._task, self._loading)):
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
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
            async with self._alone():
                outcomes = await self._decide_durably([step for _, step in pending], waited_us)
                head = pending[len(outcomes) :]
                due_us = self._due_us(head[0][1]) if head else None
            for (submission, _), outcome in zip(pending, outcomes, strict=False):
                _answer(submission, outcome)
            if due_us is not None:
                await self._wait_for_table(head[0][0], due_us)
                waited_us = max(waited_us, due_us)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """The state, up to date, for nobody else; what was not committed is forgotten where that fails."""
        async with self._deciding:
            try:
                await self._catch_up()
                yield
            except BaseException:
                self._forget_undecided()
                raise

    async def _decide_durably(self, steps: Sequence[Step], waited_us: int) -> list[Outcome]:
        """Outcomes of the first steps (all but those that need a table newer than `waited_us`), committed."""
        for _ in range(_TRIES):
            try:
                async with self._turn() as log:
                    batch = await self._decide_and_append(steps, waited_us, log)
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

    async def _decide_and_append(self, steps: Sequence[Step], waited_us: int, log: LogAccess) -> Batch:
        cloud = self._cloud
        ids = ids_to_look_up(cloud, steps, every_start=self._look_up_starts)
        past = await log.starts(self.cloud_id, ids) if ids else {}
        with TRACES.span("decide", operations=len(steps), after_seq=cloud.seq):
            batch = await self._decide(steps, past, waited_us)
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

    async def _decide(self, steps: Sequence[Step], past: Mapping[str, Recorded], waited_us: int) -> Batch:
        """As `decide_batch`, with turns for whoever else this process serves; nobody sees the state in between."""
        batch, turns = Batch(dict(past)), Turns()
        server_us, quotes = self._parts.now_us(), self._parts.tables.newest(self.cloud_id)
        for step in steps:
            if not decide_next(batch, self._cloud, step, server_us, quotes, waited_us):
                break
            if turns.is_due():
                await turns.give()
        return batch

    def _due_us(self, step: Step) -> int | None:
        return due_table_us(self._cloud, step, self._parts.tables.newest(self.cloud_id))

    async def _wait_for_table(self, submission: _Submission, due_us: int) -> None:
        """Wait until the table is there, will not come, or nobody waits for it; one table for each submission."""
        if submission.waited_us:
            return submission.refuse_rest()
        submission.waited_us = due_us
        with TRACES.span("wait for table"):
            coming = asyncio.create_task(self._parts.tables.wait_for(self.cloud_id, due_us))
            either: list[asyncio.Future[Any]] = [coming, submission.answered]
            try:
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await _end(coming)

    async def _catch_up(self) -> None:
        """Fold what the log holds beyond the state: at first use, after a conflict, after a failed append."""
        if self._in_sync:
            return
        if self._cloud.seq == 0:
            self._cloud = await self._load()
        else:
            await catch_up(self._cloud, self.cloud_id, self._parts.log)
        self._in_sync = True

    async def _load(self) -> Cloud:
        """The state from its snapshot and the log; who gives up waiting for it does not make the next begin anew."""
        loading = self._loading or asyncio.create_task(
            load_state(self.cloud_id, self._parts.log, self._parts.snapshots), context=Context()
        )
        self._loading = loading
        try:
            return await asyncio.shield(loading)
        finally:
            if loading.done():
                self._loading = None

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


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel the task where it still goes on; raise what it failed with."""
    if not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    elif not task.cancelled():
        task.result()
