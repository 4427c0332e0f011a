"""Builds everything a process needs, once; the only composition point."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from app.domain.errors import LogNewer, LogUnavailable
from app.domain.events.formats import LOG_FORMAT
from app.engine.cloud import warm_up
from app.explaining.service import Explaining
from app.following.deliveries import Courtesy, Deliveries
from app.following.deliveries import Parts as DeliveryParts
from app.following.feed import Feed, StreamLimits
from app.following.store.pulses import Pulses
from app.following.store.trials import Trials
from app.following.store.webhooks import Webhooks
from app.following.trials import TrialAsker, TrialSender
from app.following.watching import Watching
from app.following.webhooks import WebhookKeeper
from app.forecasts.jobs import Schedule
from app.forecasts.recompute import Forecasts
from app.forecasts.reliability import Reliabilities
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.forecasts.table_reads import TableReads
from app.forecasts.tables import TableCache
from app.identity.service import TokenKeeper
from app.identity.store import Tokens
from app.importing.service import Imports
from app.importing.store.imports import ImportedClouds
from app.notices.jobs import Notices
from app.observing.health import Health
from app.observing.service import Observing
from app.observing.store import Observations
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.database.embedded import embedded_url
from app.platform.database.locks import Locks
from app.platform.database.migrating import (
    DowngradeRefused,
    Standing,
    downgrade,
    require_newest,
    stand,
    upgrade,
    upgrade_at_last,
)
from app.platform.database.signals import Notice, listen
from app.platform.outbound.posting import Poster
from app.platform.settings import Settings
from app.scheduling.appending import Logs, States
from app.scheduling.growth import Growth
from app.scheduling.jobs import Snapshotting
from app.scheduling.log_reads import LogReads
from app.scheduling.scheduler import Scheduler
from app.scheduling.sequencer import Limits, Parts
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.scheduling.wire.events import event_frame, event_json
from app.utilisation.jobs import Rollup
from app.utilisation.service import UtilisationHistory
from app.utilisation.store import UtilisationRows

__all__ = ["LOG_FORMAT", "DowngradeRefused"]
"""What is passed on from the store as it is."""

_POSTS_AT_ONCE = 8
"""Of one cloud."""


class Services(dict[type, Any]):
    """The services of a process, each under its class: handlers and pages reach them so."""

    def __init__(self, *services: object) -> None:
        super().__init__({type(service): service for service in services})


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What the worker calls, and what tells others how it is."""

    forecasts: Forecasts
    snapshotting: Snapshotting
    schedule: Schedule
    notices: AsyncIterator[Notice]
    deliveries: Deliveries
    warnings: Notices
    health: Health
    tokens: TokenKeeper
    rollup: Rollup


def now_us() -> int:
    """The server's clock, in microseconds."""
    return time.time_ns() // 1000


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def database_url(settings: Settings, *, create: bool = True) -> Iterator[str]:
    """The configured database, or the service's own, started if need be and stopped by the last process to leave.

    Without `create`, NoDatabase where the service has no database of its own yet.
    """
    if settings.database_url is not None:
        yield settings.database_url
    else:
        with embedded_url(settings.data_dir, create=create) as url:
            yield url


def upgrade_schema(settings: Settings, *, finish: bool = False) -> None:
    """Bring the database to the newest schema; `finish` also puts the newest log format in force."""
    with database_url(settings) as url:
        upgrade(url, finish=finish)


def downgrade_schema(settings: Settings) -> Standing:
    """Take the database's schema one revision back; how it stands then. DowngradeRefused."""
    with database_url(settings, create=False) as url:
        return downgrade(url)


def database_standing(settings: Settings) -> Standing:
    """How the database stands: its schema, which programs it takes, its log format."""
    with database_url(settings, create=False) as url:
        return stand(url)


@asynccontextmanager
async def open_database(settings: Settings, *, create: bool = True) -> AsyncIterator[Database]:
    """The database at its newest schema; without `create`, NoDatabase where it is not that already."""
    with database_url(settings, create=create) as url:
        await asyncio.to_thread(upgrade_at_last if create else require_newest, url)
        database = Database(url, timeout_s=settings.database_timeout_s, pool_size=settings.database_pool_size)
        try:
            with suppress(LogNewer, LogUnavailable):  # until it is known, nothing newer is written than all can read
                await check_agreement(database)
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """The services of an API process."""
    async with open_database(settings) as database:
        clouds, log, runs, tables = Clouds(database), EventLog(database), Runs(database), Tables(database)
        cache = TableCache(tables, runs, settings.table_wait_s)
        limits, growth = Limits(settings.queue_limit, settings.batch_limit), Growth(database, log)
        feed = Feed(log, growth, event_frame, stream_limits(settings))
        scheduler = Scheduler(clouds, Parts(Logs(log, Snapshots(database), growth), cache, now_us, limits))
        following = asyncio.create_task(cache.follow(listen(database)))
        health = Health(database, clouds, log, tables, _now)
        reads = LogReads(clouds, log), TableReads(clouds, tables, runs, cache), Reliabilities(clouds, log)
        explaining = Explaining(clouds, log, tables, _now)
        try:
            observing = Observing(scheduler, Observations(database))
            tokens = TokenKeeper(Tokens(database), clouds, Locks(database))
            async with growth.kept_up():
                webhooks = webhook_keeper(settings, database)
                watching = Watching(clouds, Pulses(database), growth)
                history = UtilisationHistory(clouds, log, UtilisationRows(database), now_us)
                others = observing, tokens, feed, webhooks, watching, history
                yield Services(scheduler, health, explaining, *reads, *others)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            await scheduler.close()


def stream_limits(settings: Settings) -> StreamLimits:
    """The bounds on event streams that the settings ask for."""
    return StreamLimits(
        settings.stream_limit, settings.stream_limit_per_token, settings.stream_heartbeat_s, settings.stream_max_s
    )


def poster(settings: Settings) -> Poster:
    """What sends to webhooks."""
    return Poster(
        timeout_s=settings.webhook_timeout_s,
        allow_private=settings.webhook_allow_private,
        at_once=_POSTS_AT_ONCE,
        now=_now,
    )


def webhook_keeper(settings: Settings, database: Database) -> WebhookKeeper:
    """What manages webhooks."""
    return WebhookKeeper(
        Clouds(database),
        EventLog(database),
        Webhooks(database),
        TrialAsker(Trials(database), settings.webhook_timeout_s),
        most=settings.webhook_limit,
        allow_private=settings.webhook_allow_private,
    )


def deliveries(settings: Settings, database: Database, growth: Growth, post: Poster) -> Deliveries:
    """What delivers to webhooks."""
    log, webhooks, locks = EventLog(database), Webhooks(database), Locks(database)
    courtesy = Courtesy(settings.webhook_attempts, settings.webhook_retry_s, settings.webhook_max_bytes)
    trials = TrialSender(Trials(database), post, settings.webhook_timeout_s, _now)
    return Deliveries(DeliveryParts(log, growth, webhooks, locks, post, trials, event_json, courtesy, _now))


@contextmanager
def forecast_executor(settings: Settings) -> Iterator[Executor]:
    """What replays flavors side by side: a Dask cluster where one is named, or threads of this process.

    The library of the cluster comes with the extra `dask`.
    """
    if settings.dask_scheduler is not None:
        with import_module("distributed").Client(settings.dask_scheduler) as client:
            yield client.get_executor()
    else:
        threads = settings.forecast_threads or os.cpu_count() or 1
        with ThreadPoolExecutor(threads, thread_name_prefix="forecast") as executor:
            yield executor


@asynccontextmanager
async def open_worker(settings: Settings) -> AsyncIterator[WorkerParts]:
    """The services of a worker process."""
    await asyncio.to_thread(warm_up)  # compiled later, it would hold up every job and statement for as long
    async with open_database(settings) as database:
        clouds, log, runs, tables = Clouds(database), EventLog(database), Runs(database), Tables(database)
        snapshots = Snapshots(database)
        growth = Growth(database, log)
        states = States(Logs(log, snapshots, growth))
        with forecast_executor(settings) as executor:
            async with growth.kept_up(), poster(settings) as post:
                yield WorkerParts(
                    Forecasts(log, states, tables, runs, Locks(database), executor, now_us),
                    Snapshotting(clouds, states, snapshots, settings.snapshot_every),
                    Schedule(clouds, states, tables, runs, now_us),
                    listen(database),
                    deliveries(settings, database, growth, post),
                    Notices(clouds, states, tables, now_us),
                    Health(database, clouds, log, tables, _now),
                    TokenKeeper(Tokens(database), clouds, Locks(database)),
                    Rollup(UtilisationRows(database)),
                )


@asynccontextmanager
async def open_imports(settings: Settings) -> AsyncIterator[Imports]:
    """What `tenure import` calls: it works on the database, whether or not a service runs."""
    async with open_database(settings, create=False) as database:
        log, snapshots, runs = EventLog(database), Snapshots(database), Runs(database)
        yield Imports(ImportedClouds(database), log, snapshots, runs, Locks(database), now_us)


@asynccontextmanager
async def open_tokens(settings: Settings) -> AsyncIterator[TokenKeeper]:
    """The tokens alone: for commands that work on the database itself, so before anyone has a token."""
    async with open_database(settings, create=False) as database:
        yield TokenKeeper(Tokens(database), Clouds(database), Locks(database))
