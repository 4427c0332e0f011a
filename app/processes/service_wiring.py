"""Builds everything that an API process needs, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from app.clusters.bid_costing import BidCosts
from app.clusters.costing import ClusterCosts
from app.clusters.foreseeing import Foreseeing
from app.clusters.keeping import ClusterKeeper
from app.clusters.store.clusters import ClusterStore
from app.clusters.venue_advising import BidAdvising
from app.explaining.service import Explaining
from app.federation.promising import PromisesOfPeers, PromiseToPeers
from app.federation.store import PeerStore
from app.following.feed import Feed, StreamLimits
from app.following.page_watch import PageWatch, WatchLimits
from app.following.store.pulses import Pulses
from app.following.store.trials import Trials
from app.following.store.webhooks import Webhooks
from app.following.trials import TrialAsker
from app.following.webhooks import WebhookKeeper
from app.forecasts.reliability import Reliabilities
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.forecasts.table_reads import TableReads
from app.forecasts.tables import TableCache
from app.identity.service import TokenKeeper
from app.identity.store import Tokens
from app.observing.health import HealthCheck
from app.observing.service import CloudWatch
from app.observing.store import Observations
from app.observing.truths import KeptTruths
from app.planning.places import PlanPlaces
from app.planning.plans import Plans
from app.planning.store.plans import PlanStore
from app.platform.background import background
from app.platform.clock import ServerClock
from app.platform.database.database import Database
from app.platform.database.locks import Locks
from app.platform.database.signals import listen
from app.platform.settings import Settings
from app.processes.federation_wiring import federation_services
from app.processes.outbound_wiring import asker
from app.processes.wiring import open_database
from app.scheduling.appending import Logs
from app.scheduling.log_heads import HeadPauses, LogHeads
from app.scheduling.log_reads import LogReads
from app.scheduling.novas import NovaClouds
from app.scheduling.scheduler import Scheduler
from app.scheduling.sequencer import QueueLimits, SequencerParts
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.scheduling.wire.events import event_frame
from app.utilisation.service import UtilisationHistory
from app.utilisation.store import UtilisationRows
from app.venues.keeping import VenueKeeper
from app.venues.pricereads import PriceReads
from app.venues.reads import VenueReads, VenueStores
from app.venues.store.feeds import FeedStore
from app.venues.store.models import VenueModels
from app.venues.store.observations import ObservationStore
from app.venues.store.prices import VenuePriceStore


class Services(dict[type, Any]):
    """The services of a process by their class; handlers and pages find them here."""

    def __init__(self, *services: object) -> None:
        super().__init__({type(service): service for service in services})


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
