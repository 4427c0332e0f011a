"""Builds what jobs at other clouds need; a part of `wiring`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from app.domain.inputs import InputError
from app.domain.times import SECOND_US
from app.federation.collecting import OutputCollector
from app.federation.hosting import Hosting
from app.federation.jobs import JobKeeper
from app.federation.lending import Lender
from app.federation.links import Links
from app.federation.lodging import Lodging
from app.federation.peering import KnownPeers, PeerKeeper
from app.federation.standings import PeerStandings
from app.federation.store import JobLog, LinkSamples, PeerStore, Transfers
from app.federation.submitting import AwayTerms, JobBoard, JobData
from app.federation.transfers import DataKeeper, NewestQuotes, TransferParts
from app.platform.database.database import Database
from app.platform.database.locks import Locks, LocksTogether
from app.platform.outbound.asking import Asker
from app.platform.outbound.objects import ObjectStore, StoreKey, read_key
from app.platform.outbound.pulling import Puller
from app.platform.settings import Settings
from app.scheduling.appending import States
from app.scheduling.elsewhere import Elsewhere
from app.scheduling.scheduler import Scheduler
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import EventLog


def object_store(settings: Settings) -> ObjectStore | None:
    """Return this service's object store, if one is set. Raises InputError if its key cannot be read."""
    if settings.objects_url is None or settings.objects_key_file is None:
        return None
    try:
        name, secret = read_key(settings.objects_key_file)
    except (OSError, ValueError) as error:
        raise InputError(f"TENURE_OBJECTS_KEY_FILE: {error}") from error
    bucket, region = settings.objects_bucket, settings.objects_region
    peer_url = settings.objects_peer_url or settings.objects_url
    return ObjectStore(StoreKey(settings.objects_url, peer_url, bucket, name, secret, region))


def federation_services(
    settings: Settings, database: Database, scheduler: Scheduler, ask: Asker
) -> tuple[JobBoard, Elsewhere, Hosting, PeerKeeper, PeerStandings]:
    """Return the use cases of jobs: of their users, of peers, and of operators."""
    seconds = settings.hold_s, settings.reclaim_margin_s, settings.peer_answer_s
    hold_us, margin_us, answer_us = (round(one * SECOND_US) for one in seconds)
    terms = AwayTerms(hold_us, margin_us, answer_us, settings.link_bytes_per_s)
    peers, past, transfers = PeerStore(database), JobLog(EventLog(database)), Transfers(database)
    objects, known = object_store(settings), KnownPeers(peers)
    links = Links(LinkSamples(database))
    keeper = PeerKeeper(peers, known, ask, allow_private=settings.peer_allow_private)
    data = JobData(transfers, Lender(transfers, objects, settings.link_s))
    board, standings = JobBoard(scheduler, peers, past, terms, data), PeerStandings(scheduler, peers, links)
    elsewhere = Elsewhere(board.check_away, board.ask_for)
    hosting = Hosting(scheduler, known, Lodging(transfers, objects), links)
    return board, elsewhere, hosting, keeper, standings


def _puller(settings: Settings) -> Puller:
    return Puller(
        allow_private=settings.peer_allow_private,
        bytes_per_s=settings.transfer_bytes_per_s,
        reserve=settings.spool_reserve_bytes,
    )


@asynccontextmanager
async def job_keepers(
    settings: Settings,
    database: Database,
    states: States,
    ask: Asker,
    now_us: Callable[[], int],
    quotes: NewestQuotes,
) -> AsyncIterator[tuple[JobKeeper, DataKeeper]]:
    """Yield the worker's parts in jobs and in their data."""
    clouds, locks, peers, transfers = Clouds(database), Locks(database), PeerStore(database), Transfers(database)
    objects, spool = object_store(settings), settings.spool
    lender = Lender(transfers, objects, settings.link_s)
    places, links = settings.transfers_at_once, Links(LinkSamples(database))
    parts = TransferParts(clouds, states, locks, transfers, links, peers, quotes, now_us, spool, places)
    collector = OutputCollector(transfers, peers, ask, now_us)
    async with (
        _puller(settings) as puller,
        LocksTogether(database) as together,
        JobKeeper(clouds, states, together, peers, ask, now_us, lender) as job_keeper,
        DataKeeper(parts, objects, puller, collector) as data_keeper,
    ):
        yield job_keeper, data_keeper
