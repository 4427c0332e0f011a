"""The table of clouds by name. Everything else about a cloud is the fold of its log."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import CloudExists, CloudNotFound
from app.domain.events import Recorded
from app.platform.database.database import ConstraintBroken, Database
from app.scheduling.store.log import LogAccess

_INSERT = "INSERT INTO cloud (name, importing) VALUES (%(name)s, %(importing)s) RETURNING id"


class Clouds:
    """The names of all clouds. Clouds being imported are not listed, but their names are taken."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, first: Recorded) -> int:
        """Insert a cloud with its log's first event, and return its id. Raise CloudExists if the name is taken."""
        return await enter_cloud(self._database, name, [first], importing=False)

    async def find(self, name: str) -> int | None:
        """Return the cloud's id, or None."""
        sql = "SELECT id FROM cloud WHERE name = %(name)s AND NOT importing"
        rows = await self._database.execute(sql, {"name": name})
        return int(rows[0][0]) if rows else None

    async def id_of(self, name: str) -> int:
        """Return the cloud's id. Raise CloudNotFound if there is none of that name."""
        cloud_id = await self.find(name)
        if cloud_id is None:
            raise CloudNotFound.named(name)
        return cloud_id

    async def list(self) -> dict[str, int]:
        """Return all clouds' ids by name, sorted by name."""
        rows = await self._database.execute('SELECT name, id FROM cloud WHERE NOT importing ORDER BY name COLLATE "C"')
        return {row.name: row.id for row in rows}

    async def importing(self) -> frozenset[int]:
        """Return the ids of the clouds that are being imported, or whose import was cut off."""
        rows = await self._database.execute("SELECT id FROM cloud WHERE importing")
        return frozenset(int(row.id) for row in rows)


async def enter_cloud(database: Database, name: str, first: Sequence[Recorded], *, importing: bool) -> int:
    """Insert a cloud with its log's first events, and return its id. Raise CloudExists if the name is taken."""
    try:
        async with database.transaction() as session:
            rows = await session.execute(_INSERT, {"name": name, "importing": importing})
            cloud_id = int(rows[0][0])
            await LogAccess(session).append(cloud_id, first)
    except ConstraintBroken as broken:
        if broken.name != "cloud_name_key":
            raise
        raise CloudExists(f"cloud {name!r} exists, or is being imported") from broken
    return cloud_id
