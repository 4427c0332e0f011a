"""The worker process: it schedules tables and snapshots, and does at once what is asked for."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from functools import partial
from itertools import chain

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent

from app.domain.errors import LogUnavailable
from app.forecasts.recompute import Forecasts
from app.platform.background import background
from app.platform.database.signals import Resync, RunRequested
from app.platform.settings import Settings
from app.platform.telemetry.metrics import JOBS
from app.processes.preparing import Preparation, is_busy
from app.processes.regular import RegularJobs
from app.processes.worker_wiring import WorkerParts, open_worker

logger = logging.getLogger(__name__)

_DUE_S = 5
_PENDING_S = 5
_IMPORTS_S = 1
_AGAIN_S = (0.1, 0.5, 1.0, 2.0)
"""Pauses before runs are tried again when the database was lost. After the last, the job finds them at its turn."""
_CHANGED_S = 10
_SNAPSHOT_S = 60
_OVERDUE_S = 5
_RISK_S = 30
_LOOK_S = 10
_ROLLUP_S = 1
_JOBS_S = 1
_DATA_S = 1
_BREAKER_S = 5
_FEEDS_S = 30
_REFIT_S = 60
_MOST_CALLS = 100
_FILES = 16_384
"""The connections that a worker with many peers may hold; where a process may have so many."""

_OUTCOMES = {EVENT_JOB_EXECUTED: "done", EVENT_JOB_ERROR: "failed"}

BesideWorker = Callable[[WorkerParts], AbstractAsyncContextManager[None]]


async def run_worker(
    settings: Settings, beside: BesideWorker | None = None, ready: Callable[[], None] = lambda: None
) -> None:
    """Work until cancelled, with the context `beside` open meanwhile; call `ready` when work has begun."""
    _allow_files()
    preparing = Preparation(is_wanted=settings.dask_scheduler is None)
    async with open_worker(settings) as parts, nullcontext() if beside is None else beside(parts):
        jobs = regular_jobs(parts, preparing.is_over)
        jobs.scheduler.start()
        logger.info("worker ready")
        ready()
        try:
            requests = partial(_heed_requests, parts, preparing.is_over)
            works = background(deliveries=parts.deliveries.run, regular_jobs=jobs.keep, run_requests=requests)
            with preparing:
                async with works:
                    await asyncio.Event().wait()
        finally:
            jobs.scheduler.shutdown(wait=False)


def regular_jobs(parts: WorkerParts, may_compute: Callable[[], bool] = lambda: True) -> RegularJobs:
    """Return all that a worker does by the clock. `may_compute`: recomputations may begin."""

    async def run_pending() -> None:
        if may_compute():
            await parts.forecasts.run_pending()

    jobs = RegularJobs()
    jobs.add(_DUE_S, parts.schedule.request_due)
    # A long run of one cloud is no reason to leave those of the others to later: the next call executes them.
    jobs.add(_PENDING_S, run_pending, at_once=_MOST_CALLS)
    jobs.add(_IMPORTS_S, parts.reading_ahead.follow_imports, at_once=_MOST_CALLS)
    jobs.add(_CHANGED_S, parts.schedule.request_changed)
    jobs.add(_SNAPSHOT_S, parts.snapshotting.take_due)
    jobs.add(_OVERDUE_S, parts.warnings.report_overdue)
    jobs.add(_RISK_S, parts.warnings.assess_risks)
    jobs.add(_LOOK_S, parts.looks.extend_wanted)
    jobs.add(_JOBS_S, parts.job_keeper.keep_jobs, at_once=2)
    jobs.add(_DATA_S, parts.data_keeper.keep_data, at_once=2)
    jobs.add(_BREAKER_S, parts.breaker.judge_peers)
    # A long catch-up is no reason for a warning: the next call finds it busy and returns.
    jobs.add(_ROLLUP_S, parts.rollup.catch_up, at_once=2)
    jobs.add(_FEEDS_S, parts.feeds.watch_feeds)
    jobs.add(_REFIT_S, parts.refits.refit_venues)
    jobs.scheduler.add_listener(_ended, sum(_OUTCOMES))
    return jobs


async def _heed_requests(parts: WorkerParts, may_compute: Callable[[], bool]) -> None:
    """Compute what is asked for as soon as it is. What is missed is found by the job that looks every few seconds."""
    async with aclosing(parts.notices()) as notices, asyncio.TaskGroup() as group:
        async for notice in notices:
            if isinstance(notice, RunRequested | Resync) and may_compute():
                group.create_task(_run_pending(parts.forecasts))


async def _run_pending(forecasts: Forecasts) -> None:
    for pause_s in _AGAIN_S:
        try:
            await forecasts.run_pending()
        except LogUnavailable as error:
            logger.warning("pending runs are tried again", extra={"error": str(error), "pause_s": pause_s})
            await asyncio.sleep(pause_s)
        else:
            return


def _allow_files() -> None:
    """Let this process open many files, as far as it may decide that by itself."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _ended(event: JobExecutionEvent) -> None:
    """Count the job, and log why it failed: in one line where the database was away, for the next turn comes anyway."""
    if isinstance(event.exception, asyncio.CancelledError):
        return  # the worker stops
    JOBS.labels(event.job_id, _OUTCOMES[event.code]).inc()
    if lost := _lost(event.exception):
        why = "this process compiles, and has no time for it" if is_busy() else "; ".join(lost)
        logger.warning("the job %s waits for its next turn: %s", event.job_id, why)
    elif event.exception is not None:
        logger.error("the job %s failed", event.job_id, exc_info=event.exception)


def _lost(error: BaseException | None) -> list[str]:
    """Return how the database was away; nothing if the error, or one of a group, is another."""
    if isinstance(error, BaseExceptionGroup):
        found = [*map(_lost, error.exceptions)]
        return [*dict.fromkeys(chain.from_iterable(found))] if all(found) else []
    return [str(error)] if isinstance(error, LogUnavailable) else []
