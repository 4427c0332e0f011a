"""Background tasks of a process: none dies unseen.

A task that fails is logged, counted and started again after a pause that grows. One that keeps failing is told by the
process's health (`check_background`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic

from app.domain.errors import LogUnavailable, TaskFailing
from app.platform.telemetry.metrics import TASK_FAILURES

logger = logging.getLogger(__name__)

BackgroundWork = Callable[[], Awaitable[object]]

_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0
_STEADY_S = 30.0
"""A task that has run for so long has recovered."""
_FAILING_AFTER = 3
"""Failures, each less than that after the one before, that make a task a failing one."""


@dataclass(slots=True)
class _Kept:
    """A background task: how often it failed in a row, when it last did, and why."""

    name: str
    work: BackgroundWork
    failures: int = 0
    failed_at: float = 0.0
    why: str = ""

    def is_failing(self) -> bool:
        return self.failures >= _FAILING_AFTER and monotonic() - self.failed_at < _STEADY_S

    async def run(self) -> None:
        """Do the work again and again, until cancelled."""
        pause_s = _FIRST_PAUSE_S
        while True:
            began = monotonic()
            try:
                await self.work()
            except LogUnavailable as error:  # the health tells of the database itself
                _end_if_cancelled()
                logger.warning("the background task %s was interrupted: %s", self.name, error)
            except Exception as error:  # noqa: BLE001 - whatever it was: the task has to go on
                self._failed(error)
            _end_if_cancelled()
            if monotonic() - began >= _STEADY_S:
                pause_s = _FIRST_PAUSE_S
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _failed(self, error: Exception) -> None:
        logger.exception("the background task %s failed and is started again", self.name)
        TASK_FAILURES.labels(self.name).inc()
        self.failures = self.failures + 1 if monotonic() - self.failed_at < _STEADY_S else 1
        self.failed_at = monotonic()
        self.why = f"{type(error).__name__}: {error}"


def _end_if_cancelled() -> None:
    """Raise CancelledError if this task was cancelled, where a library made another error of that."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


_kept: list[_Kept] = []
"""The background tasks of this process."""


@asynccontextmanager
async def background(**works: BackgroundWork) -> AsyncIterator[None]:
    """Do these works, by name, until the block ends. Each is started again whenever it ends or fails."""
    kept = [_Kept(name, work) for name, work in works.items()]
    for one in kept:
        TASK_FAILURES.labels(one.name)
    tasks = [asyncio.create_task(one.run(), name=one.name) for one in kept]
    _kept.extend(kept)
    try:
        yield
    finally:
        for one in kept:
            _kept.remove(one)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def check_background() -> None:
    """Raise TaskFailing if a background task of this process keeps failing."""
    for one in _kept:
        if one.is_failing():
            raise TaskFailing(f"the background task {one.name} keeps failing, the last time with {one.why}")


def begun(work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
    """Begin a work that is done once and that nobody awaits; its failure is logged and counted."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_tell_of)
    return task


def _tell_of(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the task %s failed: %s", task.get_name(), error, exc_info=error)
        TASK_FAILURES.labels(task.get_name()).inc()
