"""SQL of peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.federation.rules.peers import Peer
from app.platform.database.database import Database

_COLUMNS = "name, url, cloud, secret, paused_because, quota, created_at"
_ADD = f"""
INSERT INTO peer (name, url, cloud, secret, quota)
SELECT %(name)s, %(url)s, %(cloud)s, %(secret)s, %(quota)s::jsonb
WHERE (SELECT count(*) FROM peer) < %(most)s
ON CONFLICT (name) DO NOTHING RETURNING {_COLUMNS}
"""
_CHANGE = f"""
UPDATE peer SET url = coalesce(%(url)s, url), cloud = coalesce(%(cloud)s, cloud), secret = coalesce(%(secret)s, secret),
    quota = quota || %(quota)s::jsonb
WHERE name = %(name)s RETURNING {_COLUMNS}
"""
_PAUSE = f"UPDATE peer SET paused_because = %(why)s WHERE name = %(name)s RETURNING {_COLUMNS}"


class PeerStore:
    """The peers of all clouds of this service."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[Peer]:
        """Return all peers by name."""
        return await self._read(f"SELECT {_COLUMNS} FROM peer ORDER BY name", {})

    async def get(self, name: str) -> Peer | None:
        """Return a peer."""
        found = await self._read(f"SELECT {_COLUMNS} FROM peer WHERE name = %(name)s", {"name": name})
        return found[0] if found else None

    async def add(self, given: Mapping[str, Any], most: int) -> Peer | None:
        """Enter a peer; None if there is one of that name, or there are `most`."""
        found = await self._read(_ADD, {**given, "most": most})
        return found[0] if found else None

    async def change(self, given: Mapping[str, Any]) -> Peer | None:
        """Change what is given of a peer; None if there is none of that name."""
        found = await self._read(_CHANGE, given)
        return found[0] if found else None

    async def pause(self, name: str, why: str | None) -> Peer | None:
        """Pause a peer, or resume it (None)."""
        found = await self._read(_PAUSE, {"name": name, "why": why})
        return found[0] if found else None

    async def remove(self, name: str) -> None:
        """Remove a peer."""
        await self._database.execute("DELETE FROM peer WHERE name = %(name)s", {"name": name})

    async def _read(self, sql: str, given: Mapping[str, Any]) -> list[Peer]:
        return [Peer(*row) for row in await self._database.execute(sql, dict(given))]
