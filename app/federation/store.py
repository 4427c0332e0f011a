"""SQL of peers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.domain.events import Recorded
from app.domain.events.kinds import Group
from app.domain.events.registry import names_of
from app.federation.rules.peers import Peer
from app.platform.database.database import Database
from app.scheduling.store.log import LogAccess

_JOB_KINDS = names_of(Group.JOB)
_COLUMNS = "name, url, cloud, secret, paused_because, quota, created_at, paused_by, paused_at, judged_from"
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
_PAUSE = """
UPDATE peer SET paused_because = %(why)s, paused_by = %(by)s,
    paused_at = CASE WHEN %(why)s::text IS NOT NULL THEN now() END,
    judged_from = CASE WHEN %(why)s::text IS NULL AND paused_because IS NOT NULL THEN now() ELSE judged_from END
WHERE name = %(name)s
"""
_OF_JOB = f"""
SELECT seq, kind, version, data::text FROM event
WHERE cloud_id = %(cloud_id)s AND data->>'job' = %(job)s AND kind IN {_JOB_KINDS} ORDER BY seq
"""


class JobLog:
    """Reads of jobs that have left the state, from the log."""

    def __init__(self, log: LogAccess) -> None:
        self._log = log

    async def of_job(self, cloud_id: int, job: str) -> list[Recorded]:
        """Return the events of a job at its origin, in their order."""
        return await self._log.query(_OF_JOB, {"cloud_id": cloud_id, "job": job})


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

    async def pause(self, name: str, why: str | None, by: str | None) -> Peer | None:
        """Pause a peer, or resume it (None)."""
        found = await self._read(f"{_PAUSE} RETURNING {_COLUMNS}", {"name": name, "why": why, "by": by})
        return found[0] if found else None

    async def pause_running(self, name: str, why: str, by: str) -> bool:
        """Pause a peer that is not paused; return whether it was not."""
        sql = f"{_PAUSE} AND paused_because IS NULL RETURNING {_COLUMNS}"
        return bool(await self._read(sql, {"name": name, "why": why, "by": by}))

    async def remove(self, name: str) -> None:
        """Remove a peer."""
        await self._database.execute("DELETE FROM peer WHERE name = %(name)s", {"name": name})

    async def _read(self, sql: str, given: Mapping[str, Any]) -> list[Peer]:
        return [Peer(*row) for row in await self._database.execute(sql, dict(given))]
