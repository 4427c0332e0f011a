"""Clouds by name. Everything else about a cloud is the fold of its log."""

from __future__ import annotations

from app.domain.errors import CloudExists
from app.domain.events import Recorded
from app.store.database import ConstraintBroken, Database
from app.store.log import append


class Clouds:
    """The names of all clouds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, first: Recorded) -> int:
        """Enter a cloud together with its log's first event; its id. CloudExists if the name is taken."""
        try:
            async with self._database.transaction() as session:
                rows = await session.execute("INSERT INTO cloud (name) VALUES (%(name)s) RETURNING id", {"name": name})
                cloud_id = int(rows[0][0])
                await append(session, cloud_id, [first])
        except ConstraintBroken as broken:
            if broken.name != "cloud_name_key":
                raise
            raise CloudExists(f"cloud {name!r} exists") from broken
        return cloud_id

    async def find(self, name: str) -> int | None:
        """The cloud's id, or None."""
        rows = await self._database.execute("SELECT id FROM cloud WHERE name = %(name)s", {"name": name})
        return int(rows[0][0]) if rows else None

    async def list(self) -> dict[str, int]:
        """All clouds' ids by name, in the order of their names."""
        rows = await self._database.execute('SELECT name, id FROM cloud ORDER BY name COLLATE "C"')
        return {row.name: row.id for row in rows}
