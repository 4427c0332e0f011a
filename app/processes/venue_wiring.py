"""Composition of what follows venues, for `tenure venue follow`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.platform.clock import ServerClock
from app.platform.outbound.aws import FeedFailed, SpotPriceSource
from app.platform.settings import Settings
from app.processes.import_wiring import patient
from app.processes.wiring import open_database
from app.venues.following import VenueFollowing
from app.venues.store.feeds import FeedStore
from app.venues.store.prices import VenuePriceStore

__all__ = ["FeedFailed", "SpotPriceSource", "VenueFollowing", "open_venue_following"]
"""Commands reach these through this module."""


@asynccontextmanager
async def open_venue_following(settings: Settings) -> AsyncIterator[VenueFollowing]:
    """Open the use case of `tenure venue follow`, whose imports may take long."""
    async with (
        open_database(patient(settings), create=False) as database,
        ServerClock(database.time_us).kept() as clock,
    ):
        yield VenueFollowing(VenuePriceStore(database), FeedStore(database), clock.now_us)
