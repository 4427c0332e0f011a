"""The worker process: it schedules tables and snapshots, and does at once what is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from threading import Thread, Timer
from time import monotonic

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from app.domain.errors import LogUnavailable
from app.forecasts.recompute import Forecasts, warm_up
from app.platform.database.signals import Resync, RunRequested
from app.platform.settings import Settings
from app.platform.telemetry.metrics import JOBS
from app.processes.wiring import WorkerParts, open_worker

logger = logging.getLogger(__name__)

_WORTH_TELLING_S = 3.0
_DUE_S = 5
_PENDING_S = 5
_CHANGED_S = 10
_SNAPSHOT_S = 60
_OVERDUE_S = 5
_RISK_S = 30
_ROLLUP_S = 1
_MOST_CALLS = 100

_JOB_DEFAULTS = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
"""A turn that comes late is late, and not left out: by default a second's delay would cost a job its turn."""
_OUTCOMES = {EVENT_JOB_EXECUTED: "done", EVENT_JOB_ERROR: "failed"}

BesideWorker = Callable[[WorkerParts], AbstractAsyncContextManager[None]]


async def run_worker(
    settings: Settings, beside: BesideWorker | None = None, ready: Callable[[], None] = lambda: None
) -> None:
    """Work until cancelled, with the context `beside` open meanwhile; call `ready` when work has begun."""
    async with open_worker(settings) as parts, nullcontext() if beside is None else beside(parts):
        scheduler = AsyncIOScheduler(timezone=UTC, job_defaults=_JOB_DEFAULTS)
        _every(scheduler, _DUE_S, parts.schedule.request_due)
        _every(scheduler, _PENDING_S, parts.forecasts.run_pending)
        _every(scheduler, _CHANGED_S, parts.schedule.request_changed)
        _every(scheduler, _SNAPSHOT_S, parts.snapshotting.take_due)
        _every(scheduler, _OVERDUE_S, parts.warnings.report_overdue)
        _every(scheduler, _RISK_S, parts.warnings.assess_risks)
        _every(scheduler, _ROLLUP_S, parts.rollup.catch_up)
        # A long catch-up is no reason for a warning: the next call finds it busy and returns.
        scheduler.modify_job("catch_up", max_instances=2)
        # Nor is a long run of one cloud: the next call executes those of the others.
        scheduler.modify_job("run_pending", max_instances=_MOST_CALLS)
        scheduler.add_listener(_count, sum(_OUTCOMES))
        scheduler.start()
        delivering = asyncio.create_task(parts.deliveries.run(), name="deliveries")
        if settings.dask_scheduler is None:
            # Beside everything else, and abandoned when the worker stops: after an installation it takes a minute.
            Thread(target=_prepare, name="warm-up", daemon=True).start()
        logger.info("worker ready")
        ready()
        executing: set[asyncio.Task[None]] = set()
        try:
            async for notice in parts.notices:
                if isinstance(notice, RunRequested | Resync):
                    executing.add(task := asyncio.create_task(_run_pending(parts.forecasts)))
                    task.add_done_callback(executing.discard)
        finally:
            scheduler.shutdown(wait=False)
            await _cancel(delivering, *executing)


async def _cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _run_pending(forecasts: Forecasts) -> None:
    try:
        await forecasts.run_pending()
    except LogUnavailable as error:  # the job that looks every few seconds will find the waiting runs
        logger.warning("pending runs were left for later", extra={"error": str(error)})


def _prepare() -> None:
    """Compile what a recomputation needs, and log that if it takes long: a first table waits for it."""
    began = monotonic()
    telling = Timer(_WORTH_TELLING_S, logger.info, ["compiling the forecast, which may take a minute"])
    telling.daemon = True
    telling.start()
    warm_up()
    telling.cancel()
    if (took_s := monotonic() - began) >= _WORTH_TELLING_S:
        logger.info("forecast compiled", extra={"took_s": round(took_s, 1)})


def _every(scheduler: AsyncIOScheduler, seconds: int, function: Callable[[], Awaitable[object]]) -> None:
    scheduler.add_job(function, "interval", id=function.__name__, seconds=seconds, next_run_time=datetime.now(UTC))


def _count(event: JobExecutionEvent) -> None:
    JOBS.labels(event.job_id, _OUTCOMES[event.code]).inc()
