"""Clouds whose past is being imported: created, hidden until they are complete, or removed again."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import Recorded
from app.domain.values import RunCause
from app.forecasts.rules import Run
from app.forecasts.store.runs import request_run
from app.platform.database.database import Database
from app.platform.database.signals import anyone_listens
from app.scheduling.store.clouds import enter_cloud

_REMOVED_AT_ONCE = 10_000
_REMOVE_EVENTS = """
DELETE FROM event USING cloud
WHERE cloud.id = %(id)s AND cloud.importing AND event.cloud_id = cloud.id AND event.seq >= %(first_seq)s
"""


class ImportedClouds:
    """Clouds that are still hidden. Their names are taken all the same."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def begin(self, name: str, first: Sequence[Recorded]) -> int:
        """Create a hidden cloud with its log's first events. Raises CloudExists if the name is taken."""
        return await enter_cloud(self._database, name, first, importing=True)

    async def find(self, name: str) -> tuple[int, bool] | None:
        """Return the cloud's id, and True if it is still being imported; None if there is no such cloud."""
        rows = await self._database.execute("SELECT id, importing FROM cloud WHERE name = %(name)s", {"name": name})
        return (rows[0].id, rows[0].importing) if rows else None

    async def anyone_serves(self) -> bool:
        """Return True if a service or a worker is there that may compute a table."""
        return await anyone_listens(self._database)

    async def finish(self, cloud_id: int) -> Run:
        """Make the cloud visible and ask the workers for its first table, in one transaction."""
        async with self._database.transaction() as session:
            await session.execute("UPDATE cloud SET importing = false WHERE id = %(id)s", {"id": cloud_id})
            return await request_run(session, cloud_id, RunCause.REQUESTED, None)

    async def abandon(self, cloud_id: int, last_seq: int) -> None:
        """Remove a hidden cloud; its log is deleted from the end, so the rest is always a valid log."""
        for first_seq in range(max(1, last_seq - _REMOVED_AT_ONCE + 1), 1 - _REMOVED_AT_ONCE, -_REMOVED_AT_ONCE):
            await self._database.execute(_REMOVE_EVENTS, {"id": cloud_id, "first_seq": first_seq})
        async with self._database.transaction() as session:
            await session.execute("DELETE FROM snapshot WHERE cloud_id = %(id)s", {"id": cloud_id})
            await session.execute("DELETE FROM cloud WHERE id = %(id)s AND importing", {"id": cloud_id})
