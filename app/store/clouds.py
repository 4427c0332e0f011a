"""Clouds by name. Everything else about a cloud is the fold of its log."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import CloudExists, CloudNotFound
from app.domain.events import Recorded
from app.domain.runs import Run, RunCause
from app.store.database import ConstraintBroken, Database
from app.store.log import LogAccess
from app.store.runs import request_run

_REMOVED_AT_ONCE = 10_000
_INSERT = "INSERT INTO cloud (name, importing) VALUES (%(name)s, %(importing)s) RETURNING id"
_REMOVE_EVENTS = """
DELETE FROM event USING cloud
WHERE cloud.id = %(id)s AND cloud.importing AND event.cloud_id = cloud.id AND event.seq >= %(first_seq)s
"""


class Clouds:
    """The names of all clouds. Those that are being imported are not among them, but keep their names from others."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, first: Recorded) -> int:
        """Enter a cloud together with its log's first event; its id. CloudExists if the name is taken."""
        return await self._enter(name, [first], importing=False)

    async def begin_import(self, name: str, first: Sequence[Recorded]) -> int:
        """Enter a cloud that is not to be seen yet, with its log's first events; otherwise as `create`."""
        return await self._enter(name, first, importing=True)

    async def find_import(self, name: str) -> tuple[int, bool] | None:
        """The id of the cloud of this name, whole or not, and whether it is still being imported; None without one."""
        rows = await self._database.execute("SELECT id, importing FROM cloud WHERE name = %(name)s", {"name": name})
        return (rows[0].id, rows[0].importing) if rows else None

    async def finish_import(self, cloud_id: int) -> Run:
        """Let the cloud be seen, and ask the workers for its first table: both or neither."""
        async with self._database.transaction() as session:
            await session.execute("UPDATE cloud SET importing = false WHERE id = %(id)s", {"id": cloud_id})
            return await request_run(session, cloud_id, RunCause.REQUESTED, None)

    async def abandon_import(self, cloud_id: int, last_seq: int) -> None:
        """Remove a cloud that was never seen, its log from the end on, so that what is left always is a log."""
        for first_seq in range(max(1, last_seq - _REMOVED_AT_ONCE + 1), 1 - _REMOVED_AT_ONCE, -_REMOVED_AT_ONCE):
            await self._database.execute(_REMOVE_EVENTS, {"id": cloud_id, "first_seq": first_seq})
        async with self._database.transaction() as session:
            await session.execute("DELETE FROM snapshot WHERE cloud_id = %(id)s", {"id": cloud_id})
            await session.execute("DELETE FROM cloud WHERE id = %(id)s AND importing", {"id": cloud_id})

    async def find(self, name: str) -> int | None:
        """The cloud's id, or None."""
        sql = "SELECT id FROM cloud WHERE name = %(name)s AND NOT importing"
        rows = await self._database.execute(sql, {"name": name})
        return int(rows[0][0]) if rows else None

    async def id_of(self, name: str) -> int:
        """The cloud's id; CloudNotFound if there is none of that name."""
        cloud_id = await self.find(name)
        if cloud_id is None:
            raise CloudNotFound(f"there is no cloud {name!r}")
        return cloud_id

    async def list(self) -> dict[str, int]:
        """All clouds' ids by name, in the order of their names."""
        rows = await self._database.execute('SELECT name, id FROM cloud WHERE NOT importing ORDER BY name COLLATE "C"')
        return {row.name: row.id for row in rows}

    async def _enter(self, name: str, first: Sequence[Recorded], *, importing: bool) -> int:
        try:
            async with self._database.transaction() as session:
                rows = await session.execute(_INSERT, {"name": name, "importing": importing})
                cloud_id = int(rows[0][0])
                await LogAccess(session).append(cloud_id, first)
        except ConstraintBroken as broken:
            if broken.name != "cloud_name_key":
                raise
            raise CloudExists(f"cloud {name!r} exists, or is being imported") from broken
        return cloud_id
