"""SQL of peers, and of data on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.events import Recorded
from app.domain.events.kinds import Group
from app.domain.events.registry import names_of
from app.domain.jobs import AttemptKey, DataFault
from app.federation.rules.data import Direction, Transfer, WantedObject
from app.federation.rules.links import MOST_SAMPLES, LinkSample
from app.federation.rules.peers import Peer
from app.platform.database.database import Database
from app.scheduling.store.log import LogAccess

_JOB_KINDS = names_of(Group.JOB)
_COLUMNS = (
    "name, url, cloud, secret, paused_because, quota, created_at, paused_by, paused_at, judged_from, objects_url,"
    " link_mbit_s"
)
_ADD = f"""
INSERT INTO peer (name, url, cloud, secret, quota, objects_url, link_mbit_s)
SELECT %(name)s, %(url)s, %(cloud)s, %(secret)s, %(quota)s::jsonb, %(objects_url)s, %(link_mbit_s)s
WHERE (SELECT count(*) FROM peer) < %(most)s
ON CONFLICT (name) DO NOTHING RETURNING {_COLUMNS}
"""
_CHANGE = f"""
UPDATE peer SET url = coalesce(%(url)s, url), cloud = coalesce(%(cloud)s, cloud), secret = coalesce(%(secret)s, secret),
    quota = quota || %(quota)s::jsonb, objects_url = coalesce(%(objects_url)s, objects_url),
    link_mbit_s = coalesce(%(link_mbit_s)s, link_mbit_s)
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


_TRANSFER = (
    "id, direction, peer, job, attempt, key, bytes, sha256, url, state, done_bytes, faults, fault, not_before <= now()"
)
_OF_ATTEMPT = "cloud_id = %(cloud_id)s AND peer = %(peer)s AND job = %(job)s AND attempt = %(attempt)s"
_ENTER = """
INSERT INTO transfer (cloud_id, direction, peer, job, attempt, key, bytes, sha256, url)
VALUES (%(cloud_id)s, %(direction)s, %(peer)s, %(job)s, %(attempt)s, %(key)s, %(bytes)s, %(sha256)s, %(url)s)
ON CONFLICT (cloud_id, direction, peer, job, attempt, key) DO UPDATE
SET url = EXCLUDED.url,
    not_before = CASE WHEN transfer.fault = 'data_link_expired' THEN now() ELSE transfer.not_before END
"""
_TELL = """
INSERT INTO transfer (cloud_id, direction, peer, job, attempt, key, bytes, done_bytes, fault)
VALUES (%(cloud_id)s, 'sent', %(peer)s, %(job)s, %(attempt)s, '', %(bytes)s, %(done_bytes)s, %(fault)s)
ON CONFLICT (cloud_id, direction, peer, job, attempt, key) DO UPDATE
SET done_bytes = EXCLUDED.done_bytes, fault = EXCLUDED.fault
"""
_FAULTED = """
UPDATE transfer SET fault = %(fault)s, faults = faults + 1, state = %(state)s,
    not_before = now() + make_interval(secs => %(pause_s)s)
WHERE id = %(id)s
"""
_STORED = """
UPDATE transfer SET state = 'stored', bytes = %(bytes)s, done_bytes = %(bytes)s, sha256 = %(sha256)s, fault = NULL
WHERE id = %(id)s
"""
_SAMPLE = """
INSERT INTO link_sample (peer, direction, bytes, took_us)
SELECT name, %(direction)s, %(bytes)s, %(took_us)s FROM peer WHERE name = %(peer)s
"""
_SAMPLES_KEPT = """
DELETE FROM link_sample WHERE peer = %(peer)s AND direction = %(direction)s AND id < (
    SELECT min(id) FROM (
        SELECT id FROM link_sample WHERE peer = %(peer)s AND direction = %(direction)s ORDER BY id DESC LIMIT %(most)s
    ) AS newest
)
"""
_SAMPLES = """
SELECT peer, direction, bytes, took_us, (extract(epoch FROM now() - at) * 1000000)::bigint AS age_us
FROM link_sample WHERE %(peer)s::text IS NULL OR peer = %(peer)s
"""
_ACTIVE = """
SELECT peer, direction, count(*) AS waiting FROM transfer
WHERE state = 'waiting' AND direction IN ('in', 'out') AND (%(peer)s::text IS NULL OR peer = %(peer)s)
GROUP BY peer, direction
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
        """Remove a peer, and what is known of the links to it."""
        await self._database.execute("DELETE FROM link_sample WHERE peer = %(name)s", {"name": name})
        await self._database.execute("DELETE FROM peer WHERE name = %(name)s", {"name": name})

    async def _read(self, sql: str, given: Mapping[str, Any]) -> list[Peer]:
        return [Peer(*row) for row in await self._database.execute(sql, dict(given))]


class Transfers:
    """The data of jobs on its way, object by object."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def clouds(self) -> set[int]:
        """Return the clouds that have any."""
        return {row.cloud_id for row in await self._database.execute("SELECT DISTINCT cloud_id FROM transfer", {})}

    async def of_cloud(self, cloud_id: int) -> list[Transfer]:
        """Return all of a cloud in the order in which they were entered."""
        sql = f"SELECT {_TRANSFER} FROM transfer WHERE cloud_id = %(cloud_id)s ORDER BY id"
        return [Transfer(*row) for row in await self._database.execute(sql, {"cloud_id": cloud_id})]

    async def of_attempt(self, cloud_id: int, key: AttemptKey) -> list[Transfer]:
        """Return those of one attempt. `key.origin` is its peer, on either side."""
        sql = f"SELECT {_TRANSFER} FROM transfer WHERE {_OF_ATTEMPT} ORDER BY id"
        return [Transfer(*row) for row in await self._database.execute(sql, _named(cloud_id, key))]

    async def of_job(self, cloud_id: int, job: str) -> list[Transfer]:
        """Return those of a job of the cloud's own users, of all attempts."""
        own = "direction IN ('sent', 'out') AND cloud_id = %(cloud_id)s AND job = %(job)s"
        sql = f"SELECT {_TRANSFER} FROM transfer WHERE {own} ORDER BY id"
        return [Transfer(*row) for row in await self._database.execute(sql, {"cloud_id": cloud_id, "job": job})]

    async def enter(self, cloud_id: int, direction: Direction, key: AttemptKey, wanted: Sequence[WantedObject]) -> None:
        """Enter objects that are to be moved; those that are there get their new link alone."""
        for one in wanted:
            given = {**_named(cloud_id, key), "direction": direction.value, **one._asdict()}
            await self._database.execute(_ENTER, given)

    async def tell(self, cloud_id: int, key: AttemptKey, size: int, done: int, fault: str | None) -> None:
        """Enter what a host told of the inputs that it pulls."""
        told = {"bytes": size, "done_bytes": done, "fault": fault}
        await self._database.execute(_TELL, {**_named(cloud_id, key), **told})

    async def came(self, done: Mapping[int, int]) -> None:
        """Enter how many bytes of each have come."""
        for name, count in done.items():
            sql = "UPDATE transfer SET done_bytes = %(count)s WHERE id = %(id)s AND state = 'waiting'"
            await self._database.execute(sql, {"id": name, "count": count})

    async def stored(self, name: int, size: int, sha256: str) -> None:
        """Enter that an object is where it shall be, as it was declared."""
        await self._database.execute(_STORED, {"id": name, "bytes": size, "sha256": sha256})

    async def faulted(self, name: int, fault: DataFault, pause_s: float) -> None:
        """Enter that an object did not come. It is tried again after a pause, unless the fault is final."""
        state = "failed" if fault.is_final else "waiting"
        await self._database.execute(_FAULTED, {"id": name, "fault": fault.value, "state": state, "pause_s": pause_s})

    async def release(self, cloud_id: int, key: AttemptKey) -> None:
        """Enter that the origin has all outputs of an attempt, or wants none."""
        sql = f"UPDATE transfer SET state = 'over' WHERE {_OF_ATTEMPT} AND direction = 'seal'"
        await self._database.execute(sql, _named(cloud_id, key))

    async def forget(self, names: Sequence[int]) -> None:
        """Remove some."""
        await self._database.execute("DELETE FROM transfer WHERE id = ANY(%(ids)s)", {"ids": [*names]})


class LinkSamples:
    """The newest transfers of each link: how much came, and how long it took."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, peer: str, direction: str, size: int, took_us: int) -> None:
        """Enter a transfer that has just ended, and let older ones go."""
        given = {"peer": peer, "direction": direction, "bytes": size, "took_us": took_us, "most": MOST_SAMPLES}
        await self._database.execute(_SAMPLE, given)
        await self._database.execute(_SAMPLES_KEPT, given)

    async def read(
        self, peer: str | None
    ) -> tuple[dict[tuple[str, str], list[LinkSample]], dict[tuple[str, str], int]]:
        """Return the transfers by peer and direction, and how many wait or are under way; of all peers or of one."""
        given = {"peer": peer}
        samples: dict[tuple[str, str], list[LinkSample]] = {}
        for row in await self._database.execute(_SAMPLES, given):
            samples.setdefault((row.peer, row.direction), []).append(LinkSample(row.bytes, row.took_us, row.age_us))
        active = {(row.peer, row.direction): row.waiting for row in await self._database.execute(_ACTIVE, given)}
        return samples, active


def _named(cloud_id: int, key: AttemptKey) -> dict[str, object]:
    return {"cloud_id": cloud_id, "peer": key.origin, "job": key.job, "attempt": key.attempt}
