"""Changes to venues that callers ask for, and what they report of machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.domain.errors import VenueNotFound
from app.venues.reads import check_not_ahead
from app.venues.rules.observed import Sighting
from app.venues.store.observations import ObservationStore, VenueGone
from app.venues.store.prices import VenuePriceStore


class VenueKeeper:
    """Changes venues by name. `now_us` is the server's clock."""

    def __init__(self, store: VenuePriceStore, observations: ObservationStore, now_us: Callable[[], int]) -> None:
        self._store, self._observations, self._now_us = store, observations, now_us

    async def remove(self, name: str) -> None:
        """Remove a venue with all that is of it. Raises VenueNotFound, VenueBusy while prices are being written."""
        if not await self._store.remove(name):
            raise VenueNotFound(f"there is no venue {name!r}")

    async def observe(self, name: str, seen: Sequence[Sighting]) -> int:
        """Add what was seen of a venue's machines, all or nothing; return how much of it was new.

        Raises VenueNotFound, TimeAhead, TooManyPools.
        """
        venue = await self._store.get(name)
        if venue is None:
            raise VenueNotFound(f"there is no venue {name!r}")
        newest_us = max(one.at_us for one in seen)
        check_not_ahead(newest_us, self._now_us())
        try:
            return await self._observations.add(venue.id, seen)
        except VenueGone as error:
            raise VenueNotFound(f"venue {name!r} was removed") from error
