"""Imports of prices into a venue: everything is read and checked before, and written in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from app.domain.errors import TooManyPools
from app.domain.inputs import InputError
from app.venues.rules.history import SilentStretch
from app.venues.rules.pricefiles import PriceRefused, PriceRows
from app.venues.rules.rates import RevokedBy
from app.venues.rules.types import MachineType
from app.venues.store.prices import GivenPrices, OtherCurrency, StoredVenue, VenuePriceStore

MOST_PRICES = 5_000_000
"""The most prices that one import takes. A longer past is imported in parts."""


@dataclass(frozen=True, slots=True)
class ImportedPrices:
    """A venue after an import, how many of the given prices it had not known, and the first that were refused."""

    venue: StoredVenue
    new: int
    refused: Sequence[PriceRefused]
    refused_count: int


class VenueImports:
    """Writes prices into venues, which are made by their first import."""

    def __init__(self, store: VenuePriceStore) -> None:
        self._store = store

    async def run(
        self,
        name: str,
        rows: PriceRows,
        types: Mapping[str, MachineType],
        gaps: Sequence[SilentStretch],
        revoked_by: RevokedBy | None = None,
    ) -> ImportedPrices:
        """Add what was read, or nothing. Raises InputError if it is too much, or in another currency."""
        count = sum(len(at_us) for at_us, _ in rows.rows.values())
        if count > MOST_PRICES:
            raise InputError(f"{count:,} prices are more than the {MOST_PRICES:,} of one import; import them in parts")
        prices = {
            pool: (np.frombuffer(at_us, np.int64), np.frombuffer(micro, np.int64))
            for pool, (at_us, micro) in rows.rows.items()
        }
        given = GivenPrices(prices, rows.currency, types, gaps, rows.rates, revoked_by)
        try:
            venue, before = await self._store.write(name, given)
        except OtherCurrency as error:
            raise InputError(f"preemptible.currency.mixed: {error}") from error
        except TooManyPools as error:
            raise InputError(f"preemptible.pools.too_many: {error}") from error
        return ImportedPrices(venue, venue.price_count - before, rows.refused, rows.refused_count)
