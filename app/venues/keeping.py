"""Changes to venues that callers ask for."""

from __future__ import annotations

from app.domain.errors import VenueNotFound
from app.venues.store.prices import VenuePriceStore


class VenueKeeper:
    """Changes venues by name."""

    def __init__(self, store: VenuePriceStore) -> None:
        self._store = store

    async def remove(self, name: str) -> None:
        """Remove a venue with all that is of it. Raises VenueNotFound, VenueBusy while prices are being written."""
        if not await self._store.remove(name):
            raise VenueNotFound(f"there is no venue {name!r}")
