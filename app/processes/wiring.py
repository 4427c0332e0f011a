"""Builds everything that a process needs, once; the only point of composition."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

from app.clusters.bid_costing import BidCosts
from app.clusters.costing import ClusterCosts
from app.clusters.foreseeing import Foreseeing
from app.clusters.keeping import ClusterKeeper
from app.clusters.store.clusters import ClusterStore
from app.clusters.venue_advising import BidAdvising
from app.domain.errors import LogNewer, LogUnavailable
from app.domain.events.formats import LOG_FORMAT
from app.engine.cloud import warm_up
from app.explaining.service import Explaining
from app.federation.jobs import JobKeeper
from app.federation.promising import PromisesOfPeers, PromiseToPeers
from app.federation.standings import Breaker
from app.federation.store import PeerStore
from app.federation.transfers import DataKeeper
from app.following.courier import DeliveryLimits, DeliveryParts, Pace
from app.following.deliveries import Deliveries
from app.following.feed import Feed, StreamLimits
from app.following.page_watch import PageWatch, WatchLimits
from app.following.store.pulses import Pulses
from app.following.store.trials import Trials
from app.following.store.webhooks import Webhooks
from app.following.trials import TrialAsker, TrialSender
from app.following.webhooks import WebhookKeeper
from app.forecasts.ahead import ReadingAhead
from app.forecasts.jobs import Schedule
from app.forecasts.places import Places
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
from app.notices.jobs import NoticeWriter
from app.notices.looks import Looks
from app.notices.newest import NewestTables
from app.observing.health import HealthCheck
from app.observing.service import CloudWatch
from app.observing.store import Observations
from app.observing.truths import KeptTruths
from app.planning.places import PlanPlaces
from app.planning.plans import Plans
from app.planning.store.plans import PlanStore
from app.platform.background import background
from app.platform.clock import ServerClock
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.database.embedded import embedded_url
from app.platform.database.locks import Locks
from app.platform.database.migrating import (
    DowngradeRefused,
    Standing,
    at_last,
    downgrade,
    require_newest,
    stand,
    upgrade,
)
from app.platform.database.signals import Signal, listen
from app.platform.outbound.asking import Asker
from app.platform.outbound.posting import Poster
from app.platform.settings import Settings
from app.platform.telemetry.metrics import LEFT_ALONE
from app.processes.federation_wiring import federation_services, job_keepers
from app.scheduling.appending import Logs, States
from app.scheduling.jobs import Snapshotting
from app.scheduling.log_heads import HeadPauses, LogHeads
from app.scheduling.log_reads import LogReads
from app.scheduling.novas import NovaClouds
from app.scheduling.scheduler import Scheduler
from app.scheduling.sequencer import QueueLimits, SequencerParts
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.scheduling.wire.events import event_frame, event_json
from app.utilisation.jobs import Rollup
from app.utilisation.service import UtilisationHistory
from app.utilisation.store import UtilisationRows
from app.venues.following import FeedWatch
from app.venues.imports import ImportedPrices, VenueImports
from app.venues.keeping import VenueKeeper
from app.venues.pricereads import PriceReads
from app.venues.reads import VenueReads, VenueStores
from app.venues.refits import VenueRefits
from app.venues.store.feeds import FeedStore
from app.venues.store.models import VenueModels
from app.venues.store.observations import ObservationStore
from app.venues.store.prices import VenuePriceStore

__all__ = ["LOG_FORMAT", "DowngradeRefused", "ImportedPrices"]
"""Commands reach these parts of the database layer through this module."""

_POSTS_AT_ONCE = 8
"""Of one cloud."""
_CLUSTER_PLACES = 64
_ASKED_AT_ONCE = 16
"""Requests to one peer under way."""
_PEER_BYTES = 65_536
_IMPORT_S = 600.0
_WORKER_GATHERS_S = 0.005
"""A worker tells of what it wrote at once: the processes that write much more then need not find out by a conflict."""


class Services(dict[type, Any]):
    """The services of a process by their class; handlers and pages find them here."""

    def __init__(self, *services: object) -> None:
        super().__init__({type(service): service for service in services})


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


@contextmanager
def database_url(settings: Settings, *, create: bool = True) -> Iterator[str]:
    """Yield the URL of the configured database or of the service's own, which is started if it does not run.

    The last process to leave stops the service's own. Without `create`, raises NoDatabase if it does not exist yet.
    """
    if settings.database_url is not None:
        yield settings.database_url
    else:
        with embedded_url(settings.data_dir, create=create) as url:
            yield url


def upgrade_schema(settings: Settings, *, finish: bool = False) -> None:
    """Upgrade the database to the newest schema; `finish` also puts the newest log format in force."""
    with database_url(settings) as url:
        at_last(partial(upgrade, url, finish=finish, timeout_s=settings.database_timeout_s))


def downgrade_schema(settings: Settings) -> Standing:
    """Take the database's schema one revision back; return its standing. Raises DowngradeRefused."""
    with database_url(settings, create=False) as url:
        return at_last(partial(downgrade, url, timeout_s=settings.database_timeout_s))


def database_standing(settings: Settings) -> Standing:
    """Return the database's standing: its schema, the programs it accepts, its log format."""
    with database_url(settings, create=False) as url:
        return at_last(partial(stand, url, timeout_s=settings.database_timeout_s))


@asynccontextmanager
async def open_database(settings: Settings, *, create: bool = True) -> AsyncIterator[Database]:
    """Open the database at its newest schema. Without `create`, raises NoDatabase if it has another."""
    with database_url(settings, create=create) as url:
        prepare = partial(upgrade if create else require_newest, url, timeout_s=settings.database_timeout_s)
        await asyncio.to_thread(at_last, prepare)
        database = Database(url, timeout_s=settings.database_timeout_s, pool_size=settings.database_pool_size)
        LEFT_ALONE.labels("clouds").set_function(lambda: len(database.newer.clouds()))
        LEFT_ALONE.labels("database").set_function(database.newer.leaves_all)
        try:
            with suppress(LogNewer, LogUnavailable):  # until it is known, nothing newer is written than all can read
                await check_agreement(database)
            yield database
        finally:
            await database.close()


@asynccontextmanager
async def open_services(
    settings: Settings, pauses: HeadPauses | None = None, watch: WatchLimits | None = None
) -> AsyncIterator[Services]:
    """Open the services of an API process. `pauses`, `watch` None: the default ones of looks and of open pages."""
    async with open_database(settings) as database, ServerClock(database.time_us).kept() as clock:
        clouds, log, runs, tables = Clouds(database), EventLog(database), Runs(database), Tables(database)
        cache = TableCache(tables, runs, settings.table_wait_s)
        limits, heads = QueueLimits(settings.queue_limit, settings.batch_limit), LogHeads(database, log, pauses)
        feed = Feed(log, heads, event_frame, _stream_limits(settings))
        scheduler = Scheduler(
            clouds, SequencerParts(Logs(log, Snapshots(database), heads), cache, clock.now_us, limits)
        )
        health = HealthCheck(database, clouds, log, tables, clock)
        reads = LogReads(clouds, log), TableReads(clouds, tables, runs, cache), Reliabilities(clouds, log)
        explaining = Explaining(clouds, log, reads[1], scheduler, clock.now)
        try:
            truths = KeptTruths(reads[2], scheduler)
            observing = CloudWatch(scheduler, Observations(database), truths, clock)
            tokens = TokenKeeper(Tokens(database), clouds, Locks(database))
            async with (
                heads.kept_up(),
                background(table_signals=lambda: cache.follow(listen(database)), table_looks=cache.keep_looking),
                background(estimate_looks=truths.keep),
            ):
                watches = PageWatch(clouds, Pulses(database), heads, watch), webhook_keeper(settings, database)
                history = UtilisationHistory(clouds, log, UtilisationRows(database), clock.now_us)
                venues, prices = _venues(database, clock)
                bidding = BidAdvising(venues[0], prices, clock.now_us), prices
                costs = ClusterCosts(clouds, log, scheduler, BidCosts(venues[0], prices))
                keeper = ClusterKeeper(ClusterStore(database), clouds, venues[0], clock.now_us)
                clusters = keeper, Foreseeing(scheduler, reads[1], bidding[0]), costs
                others = observing, tokens, feed, _novas(settings), *watches, history, *venues, *bidding, *clusters
                async with asker(settings) as ask:
                    federation = federation_services(settings, database, scheduler, ask)
                    promises = PromiseToPeers(scheduler, PeerStore(database), reads[1])
                    places = PlanPlaces(venues[0], scheduler, reads[1], PromisesOfPeers(PeerStore(database), ask))
                    plans = promises, Plans(PlanStore(database), places, clock.now_us)
                    yield Services(clock, scheduler, health, explaining, *reads, *others, *federation, *plans)
        finally:
            await scheduler.close()


def _novas(settings: Settings) -> NovaClouds:
    return NovaClouds(settings.nova_clouds or frozenset())


def _venues(database: Database, clock: ServerClock) -> tuple[tuple[VenueReads, VenueKeeper], PriceReads]:
    """Return the use cases of venues, and the prices of single pools."""
    prices, seen = VenuePriceStore(database), ObservationStore(database)
    stores = VenueStores(prices, FeedStore(database), seen, VenueModels(database))
    reads = VenueReads(stores, clock.now_us)
    return (reads, VenueKeeper(prices, seen, clock.now_us)), PriceReads(prices, reads)


def _stream_limits(settings: Settings) -> StreamLimits:
    return StreamLimits(
        settings.stream_limit, settings.stream_limit_per_token, settings.stream_heartbeat_s, settings.stream_max_s
    )


def poster(settings: Settings, clock: ServerClock) -> Poster:
    """Return the sender of webhook requests."""
    return Poster(
        timeout_s=settings.webhook_timeout_s,
        allow_private=settings.webhook_allow_private,
        at_once=_POSTS_AT_ONCE,
        now=clock.now,
    )


def asker(settings: Settings) -> Asker:
    """Return the sender of requests to peers."""
    return Asker(
        timeout_s=settings.peer_answer_s,
        allow_private=settings.peer_allow_private,
        at_once=_ASKED_AT_ONCE,
        most_bytes=_PEER_BYTES,
    )


def webhook_keeper(settings: Settings, database: Database) -> WebhookKeeper:
    """Return the use cases of webhooks."""
    return WebhookKeeper(
        Clouds(database),
        EventLog(database),
        Webhooks(database),
        TrialAsker(Trials(database), settings.webhook_timeout_s),
        most=settings.webhook_limit,
        allow_private=settings.webhook_allow_private,
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


@asynccontextmanager
async def open_imports(settings: Settings) -> AsyncIterator[Imports]:
    """Open the use cases of `tenure import`. They work on the database, whether or not a service runs."""
    async with open_database(settings, create=False) as database, ServerClock(database.time_us).kept() as clock:
        log, snapshots, runs = EventLog(database), Snapshots(database), Runs(database)
        yield Imports(ImportedClouds(database), log, snapshots, runs, Locks(database), clock.now_us)


@asynccontextmanager
async def open_venue_imports(settings: Settings) -> AsyncIterator[VenueImports]:
    """Open the use case of `tenure venue import`, whose one transaction may take long."""
    async with open_database(patient(settings), create=False) as database:
        yield VenueImports(VenuePriceStore(database))


def patient(settings: Settings) -> Settings:
    """Return settings of a command whose transactions may take long."""
    return settings.model_copy(update={"database_timeout_s": max(settings.database_timeout_s, _IMPORT_S)})


@asynccontextmanager
async def open_tokens(settings: Settings) -> AsyncIterator[TokenKeeper]:
    """Open the tokens alone, for commands that work on the database before anyone has a token."""
    async with open_database(settings, create=False) as database:
        yield TokenKeeper(Tokens(database), Clouds(database), Locks(database))
