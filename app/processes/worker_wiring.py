"""Builds everything that a worker needs, once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from app.engine.cloud import warm_up
from app.federation.jobs import JobKeeper
from app.federation.standings import Breaker
from app.federation.store import PeerStore
from app.federation.transfers import DataKeeper
from app.following.courier import DeliveryLimits, DeliveryParts, Pace
from app.following.deliveries import Deliveries
from app.following.store.trials import Trials
from app.following.store.webhooks import Webhooks
from app.following.trials import TrialSender
from app.forecasts.ahead import ReadingAhead
from app.forecasts.jobs import Schedule
from app.forecasts.places import Places
from app.forecasts.recompute import Forecasts
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.identity.service import TokenKeeper
from app.identity.store import Tokens
from app.notices.jobs import NoticeWriter
from app.notices.looks import Looks
from app.notices.newest import NewestTables
from app.observing.health import HealthCheck
from app.platform.clock import ServerClock
from app.platform.database.database import Database
from app.platform.database.locks import Locks
from app.platform.database.signals import Signal, listen
from app.platform.outbound.posting import Poster
from app.platform.settings import Settings
from app.processes.federation_wiring import job_keepers
from app.processes.outbound_wiring import asker, poster
from app.processes.wiring import open_database
from app.scheduling.appending import Logs, States
from app.scheduling.jobs import Snapshotting
from app.scheduling.log_heads import HeadPauses, LogHeads
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.scheduling.wire.eventjson import event_json
from app.utilisation.jobs import Rollup
from app.utilisation.store import UtilisationRows
from app.venues.following import FeedWatch
from app.venues.refits import VenueRefits
from app.venues.store.feeds import FeedStore
from app.venues.store.models import VenueModels
from app.venues.store.prices import VenuePriceStore

_WORKER_GATHERS_S = 0.005
"""A worker tells of what it wrote at once: the processes that write much more then need not find out by a conflict."""
_CLUSTER_PLACES = 64


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """The jobs of a worker, and its answers about its health."""

    forecasts: Forecasts
    reading_ahead: ReadingAhead
    snapshotting: Snapshotting
    schedule: Schedule
    notices: Callable[[], AsyncGenerator[Signal]]
    deliveries: Deliveries
    warnings: NoticeWriter
    looks: Looks
    health: HealthCheck
    tokens: TokenKeeper
    rollup: Rollup
    job_keeper: JobKeeper
    data_keeper: DataKeeper
    breaker: Breaker
    feeds: FeedWatch
    refits: VenueRefits


@asynccontextmanager
async def open_worker(
    settings: Settings, pace: Pace | None = None, pauses: HeadPauses | None = None
) -> AsyncIterator[WorkerParts]:
    """Open the services of a worker process. `pace`, `pauses` None: the default ones of deliveries and of looks."""
    await asyncio.to_thread(warm_up)  # compiled later, it would block every job and statement meanwhile
    async with open_database(settings) as database, ServerClock(database.time_us).kept() as clock:
        clouds, log, runs, tables = Clouds(database), EventLog(database), Runs(database), Tables(database)
        snapshots = Snapshots(database)
        heads = LogHeads(database, log, pauses or HeadPauses(gather_s=_WORKER_GATHERS_S))
        states, newest = States(Logs(log, snapshots, heads)), NewestTables(tables)
        with forecast_executor(settings) as executor:
            async with (
                heads.kept_up(),
                poster(settings, clock) as post,
                asker(settings) as ask,
                job_keepers(settings, database, states, ask, clock.now_us, newest.of) as (job_keeper, data_keeper),
            ):
                places = _places(settings, executor)
                forecasts = Forecasts(log, states, tables, runs, Locks(database), places, clock.now_us)
                yield WorkerParts(
                    forecasts,
                    ReadingAhead(clouds, forecasts, Locks(database)),
                    Snapshotting(clouds, states, snapshots, settings.snapshot_every),
                    Schedule(clouds, states, tables, runs, clock.now_us),
                    partial(listen, database),
                    deliveries(settings, database, heads, post, clock, pace or Pace()),
                    NoticeWriter(clouds, states, newest, clock.now_us),
                    Looks(clouds, states, newest, clock.now_us),
                    HealthCheck(database, clouds, log, tables, clock),
                    TokenKeeper(Tokens(database), clouds, Locks(database)),
                    Rollup(UtilisationRows(database)),
                    job_keeper,
                    data_keeper,
                    Breaker(clouds, states, PeerStore(database), clock.now),
                    FeedWatch(FeedStore(database)),
                    VenueRefits(VenuePriceStore(database), VenueModels(database), Locks(database)),
                )


def deliveries(
    settings: Settings, database: Database, heads: LogHeads, post: Poster, clock: ServerClock, pace: Pace
) -> Deliveries:
    """Return the deliverer of events to webhooks."""
    log, webhooks, locks = EventLog(database), Webhooks(database), Locks(database)
    limits = DeliveryLimits(settings.webhook_attempts, settings.webhook_retry_s, settings.webhook_max_bytes)
    trials = TrialSender(Trials(database), post, settings.webhook_timeout_s, clock.now)
    return Deliveries(DeliveryParts(log, heads, webhooks, locks, post, trials, event_json, limits, clock.now, pace))


def _places(settings: Settings, executor: Executor) -> Places:
    """Return the places of recomputations: as many as there are threads, or a cluster's."""
    count = settings.forecast_threads or os.cpu_count() or 1
    return Places(executor, count if settings.dask_scheduler is None else _CLUSTER_PLACES)


@contextmanager
def forecast_executor(settings: Settings) -> Iterator[Executor]:
    """Return the executor that replays flavors side by side: a Dask cluster if one is set, else threads.

    The library of the cluster comes with the extra `dask`.
    """
    if settings.dask_scheduler is not None:
        with import_module("distributed").Client(settings.dask_scheduler) as client:
            yield client.get_executor()
    else:
        threads = settings.forecast_threads or os.cpu_count() or 1
        with ThreadPoolExecutor(threads, thread_name_prefix="forecast") as executor:
            yield executor
