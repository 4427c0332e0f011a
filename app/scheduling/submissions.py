"""Steps that were submitted together, and the place of those that wait for a table."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import Any

from app.admission.outcomes import Changed, Extended, Moved, Outcome, Started, Step, Stopped
from app.domain.errors import Overloaded, ServiceStopping, TenureError
from app.platform.asked import CommonTurns
from app.platform.telemetry.tracing import TRACES

logger = logging.getLogger(__name__)

_TABLES_AT_ONCE = 8
"""Tables that one cloud's starts are waiting for; each is looked for in the database every second."""


@dataclass(slots=True, eq=False)
class Submission:
    """Steps submitted together. `due_us`: the table that the last try found missing, by its due time.

    `waited_us` is the due time of the one table that they have waited for, 0 before.
    """

    steps: Sequence[Step]
    answered: asyncio.Future[list[Outcome]]
    origin: Any = field(default_factory=TRACES.origin)
    outcomes: list[Outcome] = field(default_factory=list)
    due_us: int | None = None
    waited_us: int = 0
    asked_s: float = field(default_factory=monotonic)

    @property
    def left(self) -> int:
        """The number of steps still to decide."""
        return len(self.steps) - len(self.outcomes)

    def undecided(self) -> Sequence[Step]:
        """Return the steps still to decide; none if nobody waits for their outcomes any more."""
        return () if self.answered.done() else self.steps[len(self.outcomes) :]

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Add outcomes that are durable, and answer with the last one, unless the submission is to wait for a table."""
        self.outcomes += outcomes
        if len(self.outcomes) == len(self.steps) and not self.may_wait() and not self.answered.done():
            self.answered.set_result(self.outcomes)

    def may_wait(self) -> bool:
        """Return True if a table is missing, for the first time, and nothing has been written."""
        return self.due_us is not None and not self.waited_us and not any(map(_has_written, self.outcomes))

    def fail(self, error: Exception) -> None:
        """Raise this error where the answer is still waited for."""
        if not self.answered.done():
            self.answered.set_exception(error)


def _has_written(outcome: Outcome) -> bool:
    """Return True if events of the log belong to this outcome of a try, and not of an earlier one."""
    match outcome:
        case Started() | Extended():
            return not outcome.repeated
        case Stopped():
            return outcome.changed
        case Moved():
            return outcome.changed is not None
        case Changed():
            return bool(outcome.events)
    return False


@dataclass(slots=True)
class _Wait:
    """The submissions that wait for one table, in their order."""

    waiting: dict[Submission, None]
    task: asyncio.Task[None]


class Parking:
    """Holds the submissions of one cloud that wait for a table, so that nobody waits with them.

    `wait_for` waits for the table of a due time, for as long as is allowed since a moment (`monotonic`). `line_up`
    takes those that have waited, in their order.
    """

    def __init__(
        self,
        wait_for: Callable[[int, float], Awaitable[None]],
        line_up: Callable[[Sequence[Submission]], None],
        limit: int,
    ) -> None:
        self._wait_for = wait_for
        self._line_up = line_up
        self._limit = limit
        self._waits: dict[int, _Wait] = {}
        self._tables = CommonTurns(_TABLES_AT_ONCE)
        self._closed: Exception | None = None
        self.count = 0
        """The number of steps that wait."""

    def park(self, submission: Submission, due_us: int) -> None:
        """Have the submission wait for a table, or refuse it if too many wait or the process stops."""
        if self._closed is not None:
            submission.fail(self._closed)
        elif self.count + len(submission.steps) > self._limit:
            submission.fail(Overloaded(f"{self.count} operations wait for tables of this cloud"))
        else:
            self._hold(submission, due_us)

    def close(self) -> None:
        """Answer all that wait, now and later, that the service is stopping."""
        self._closed = ServiceStopping("it waited for a table; nothing was written")
        for due_us in [*self._waits]:
            self._waits[due_us].task.cancel()
            self._fail(due_us, self._closed)

    def _hold(self, submission: Submission, due_us: int) -> None:
        submission.waited_us, submission.outcomes = due_us, []  # they wrote nothing, and are decided again
        if due_us not in self._waits:
            # The task has a context of its own, because it does not belong to the request that happened to be first.
            self._waits[due_us] = _Wait({}, asyncio.create_task(self._wait(due_us), context=Context()))
        self._waits[due_us].waiting[submission] = None
        self.count += len(submission.steps)
        submission.answered.add_done_callback(partial(self._leave, due_us, submission))

    async def _wait(self, due_us: int) -> None:
        parked_s = monotonic()
        try:
            async with self._tables.taken():
                with TRACES.span("wait for table", [one.origin for one in self._waits[due_us].waiting]):
                    await self._wait_for(due_us, parked_s)
        except Exception as error:  # the waiting callers get it
            if not isinstance(error, TenureError):
                logger.exception("waiting for a table failed")
            self._fail(due_us, error)
        else:
            self._line_up(self._released(due_us))

    def _fail(self, due_us: int, error: Exception) -> None:
        for submission in self._released(due_us):
            submission.fail(error)

    def _released(self, due_us: int) -> Sequence[Submission]:
        released = [*self._waits.pop(due_us).waiting]
        self.count -= sum(len(one.steps) for one in released)
        return released

    def _leave(self, due_us: int, submission: Submission, _: object) -> None:
        """Forget a submission whose caller has gone, and the wait with the last one."""
        wait = self._waits.get(due_us)
        if wait is None or submission not in wait.waiting:
            return
        del wait.waiting[submission]
        self.count -= len(submission.steps)
        if not wait.waiting:
            wait.task.cancel()
            del self._waits[due_us]
