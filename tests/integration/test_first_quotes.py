"""The first quote of a process finds its statements asked before: an API process asks them when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from app.domain.times import DAY_US, HOUR_US, from_rfc3339
from app.platform.database.database import Database
from app.venues.quoting import QuoteQuestion
from app.venues.reads import VenueReads, VenueStores
from app.venues.rules.history import PoolName
from app.venues.store.feeds import FeedStore
from app.venues.store.models import VenueModels
from app.venues.store.observations import ObservationStore
from app.venues.store.prices import GivenPrices, VenuePriceStore

pytestmark = pytest.mark.anyio
END_US = from_rfc3339("2015-06-01T00:00:00Z")


def reads_of(database: Database) -> tuple[VenueReads, set[str]]:
    """Return reads whose statements are noted."""
    asked = set[str]()
    for name in ("execute", "execute_directly"):
        setattr(database, name, noting(getattr(database, name), asked))
    stores = VenueStores(
        VenuePriceStore(database), FeedStore(database), ObservationStore(database), VenueModels(database)
    )
    return VenueReads(stores, lambda: END_US), asked


def noting(execute: Any, asked: set[str]) -> Any:
    async def noted(sql: str, parameters: Mapping[str, Any] | None = None) -> Any:
        asked.add(sql)
        return await execute(sql, parameters or {})

    return noted


async def test_a_quote_asks_nothing_that_was_not_asked_at_the_start(database: Database) -> None:
    at_us = np.arange(END_US - 10 * DAY_US, END_US - HOUR_US // 2, HOUR_US, dtype=np.int64)
    rows = {PoolName("aws", "r", "ra", "m5.large", "Linux"): (at_us, np.full(len(at_us), 50_000, np.int64))}
    await VenuePriceStore(database).write("first", GivenPrices(rows, "USD", {}, [], {}))
    reads, asked = reads_of(database)
    await reads.warm_up()
    warmed = {*asked}
    asked.clear()
    for at in (None, END_US - DAY_US):
        found = await reads.quotes("first", QuoteQuestion(HOUR_US, 0.9), at)
        assert found.quotes[0].quote.bid == 0.05
    assert asked
    assert asked <= warmed
