"""Builds the use cases of the commands that import."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.forecasts.store.runs import Runs
from app.importing.service import Imports
from app.importing.store.imports import ImportedClouds
from app.platform.clock import ServerClock
from app.platform.database.locks import Locks
from app.platform.settings import Settings
from app.processes.wiring import open_database
from app.scheduling.store.log import EventLog
from app.scheduling.store.snapshots import Snapshots
from app.venues.imports import ImportedPrices, VenueImports
from app.venues.store.prices import VenuePriceStore

__all__ = ["ImportedPrices"]
"""The command reaches the numbers of an import through this module."""


_IMPORT_S = 600.0


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
