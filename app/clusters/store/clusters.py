"""Clusters and their events.

The row of a cluster is locked while events are added, so their seqs have no gaps and rise in the order of the commits.
An event whose key is known already is the same event, and is not written again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from app.clusters.rules.told import Fact, ToldEvent
from app.domain.paging import Page
from app.platform.database.database import Database, Rows, Session
from app.platform.turns import Turns

MOST_EVENTS = 100_000
"""Of one cluster; the oldest go."""
_FIRST, _LEAST, _MOST = 128, 16, 1000
"""So many events are read at once: at first, where they are large, and where they are small."""
_MOST_BYTES = 1 << 20
"""The bytes of facts that are read at once, or for a page, but for what one piece has beyond it."""
_CLUSTER = "id, name, spec, version, created_at, changed_at, last_seq, reported_at, loop_s, orphan_count"
_ENTER = f"""
INSERT INTO cluster (name, spec) SELECT %(name)s, %(spec)s::jsonb WHERE (SELECT count(*) FROM cluster) < %(most)s
ON CONFLICT (name) DO UPDATE SET spec = excluded.spec,
    version = cluster.version + (cluster.spec IS DISTINCT FROM excluded.spec)::int,
    changed_at = CASE WHEN cluster.spec IS DISTINCT FROM excluded.spec THEN now() ELSE cluster.changed_at END
RETURNING {_CLUSTER}
"""
_CHANGE = f"""
UPDATE cluster SET spec = %(spec)s::jsonb, version = version + (spec IS DISTINCT FROM %(spec)s::jsonb)::int,
    changed_at = CASE WHEN spec IS DISTINCT FROM %(spec)s::jsonb THEN now() ELSE changed_at END
WHERE name = %(name)s RETURNING {_CLUSTER}
"""
_LOCK = "SELECT id, last_seq FROM cluster WHERE name = %(name)s FOR UPDATE"
_ADD = """
WITH given AS (
    SELECT DISTINCT ON (key) * FROM ROWS FROM (
        unnest(%(times)s::bigint[]), unnest(%(kinds)s::text[]), unnest(%(keys)s::text[]),
        jsonb_array_elements(%(facts)s::jsonb)
    ) WITH ORDINALITY AS one (at_us, kind, key, facts, place)
    WHERE NOT EXISTS (SELECT FROM cluster_event WHERE cluster_id = %(cluster)s AND cluster_event.key = one.key)
    ORDER BY key, place
)
INSERT INTO cluster_event (cluster_id, seq, at_us, kind, key, facts)
SELECT %(cluster)s, %(last_seq)s + row_number() OVER (ORDER BY place), at_us, kind, key, facts FROM given
RETURNING seq
"""
_TOLD = """
UPDATE cluster SET last_seq = %(last_seq)s, reported_at = CASE WHEN %(loop_s)s::float8 IS NULL THEN reported_at
    ELSE clock_timestamp() END,
    loop_s = coalesce(%(loop_s)s, loop_s), orphan_count = coalesce(%(orphans)s, orphan_count)
WHERE id = %(cluster)s
"""
_TRIM = "DELETE FROM cluster_event WHERE cluster_id = %(cluster)s AND seq <= %(up_to)s"
_EVENTS = """
SELECT seq, at_us, kind, key, facts::text FROM cluster_event WHERE cluster_id = %(cluster)s AND seq > %(after)s
AND (%(kinds)s::text[] IS NULL OR kind = ANY(%(kinds)s::text[])) ORDER BY seq LIMIT %(limit)s
"""


class StoredCluster(NamedTuple):
    """A cluster: `version` rises when its description changes; what its manager said of itself, None if nothing yet."""

    id: int
    name: str
    spec: dict[str, Any]
    version: int
    created_at: datetime
    changed_at: datetime
    last_seq: int
    reported_at: datetime | None
    loop_s: float | None
    orphan_count: int | None


class KeyedEvent(NamedTuple):
    """An event with the key by which it is known when it is told again."""

    key: str
    event: ToldEvent


class _Piece(NamedTuple):
    """Events, the length of their facts, and if there are none after them."""

    events: Sequence[KeyedEvent]
    size: int
    is_last: bool


class ManagerLook(NamedTuple):
    """The newest look of a manager: how long it took, and how many machines it saw that nobody pays for."""

    loop_s: float
    orphan_count: int


class ClusterStore:
    """Clusters by name. Raises LogUnavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, name: str, spec: Mapping[str, Any], most: int) -> StoredCluster | None:
        """Describe a cluster, which is made if it is not there; return it, or None if there are too many."""
        given = {"name": name, "spec": json.dumps(spec), "most": most}
        async with self._database.transaction() as session:
            rows = await session.execute(_CHANGE, given) or await session.execute(_ENTER, given)
        return StoredCluster(*rows[0]) if rows else None

    async def get(self, name: str) -> StoredCluster | None:
        """Return a cluster."""
        rows = await self._database.execute(f"SELECT {_CLUSTER} FROM cluster WHERE name = %(name)s", {"name": name})
        return StoredCluster(*rows[0]) if rows else None

    async def page(self, after: str, limit: int) -> list[StoredCluster]:
        """Return clusters after a name, by name."""
        sql = f"""SELECT {_CLUSTER} FROM cluster WHERE name COLLATE "C" > %(after)s
        ORDER BY name COLLATE "C" LIMIT %(limit)s"""
        return [StoredCluster(*row) for row in await self._database.execute(sql, {"after": after, "limit": limit})]

    async def delete(self, name: str) -> bool:
        """Remove a cluster with all that was told of it; return False if it is not there."""
        sql = "DELETE FROM cluster WHERE name = %(name)s RETURNING id"
        return bool(await self._database.execute(sql, {"name": name}))

    async def add(self, name: str, events: Sequence[KeyedEvent], look: ManagerLook | None) -> tuple[int, int] | None:
        """Add events, those known already left out; return how many were new and the last seq. None: no such cluster.

        The seqs of the given events count for nothing.
        """
        async with self._database.transaction() as session:
            rows = await session.execute(_LOCK, {"name": name})
            if not rows:
                return None
            cluster, last_seq = rows[0]
            new = await _add(session, cluster, last_seq, events) if events else 0
            told = {"loop_s": None, "orphans": None} if look is None else {"loop_s": look[0], "orphans": look[1]}
            await session.execute(_TOLD, {"cluster": cluster, "last_seq": last_seq + new, **told})
            if new:
                await session.execute(_TRIM, {"cluster": cluster, "up_to": last_seq + new - MOST_EVENTS})
        return new, last_seq + new

    async def events_page(
        self, cluster: int, after_seq: int, limit: int, kinds: Sequence[str] | None = None
    ) -> Page[KeyedEvent]:
        """Return the next events of a cluster after a seq, of these kinds or of all: fewer if they are large."""
        found, size, has_more = list[KeyedEvent](), 0, False
        async for piece in self._pieces(cluster, after_seq, limit + 1, kinds):
            found += piece.events
            size += piece.size
            has_more = len(found) > limit or (size > _MOST_BYTES and not piece.is_last)
            if has_more:
                found.pop()  # it is there, and the next page begins with it
                break
        return Page(found, str(found[-1].event.seq) if has_more else None)

    async def events(self, cluster: int, after_seq: int) -> AsyncIterator[Sequence[KeyedEvent]]:
        """Yield all events of a cluster after a seq, in pieces."""
        async for piece in self._pieces(cluster, after_seq, MOST_EVENTS, None):
            yield piece.events

    async def _pieces(
        self, cluster: int, after_seq: int, most: int, kinds: Sequence[str] | None
    ) -> AsyncIterator[_Piece]:
        """Yield up to so many events after a seq in pieces, each as long as the size of the last one allows."""
        count = _FIRST
        while most > 0:
            asked = {"cluster": cluster, "after": after_seq, "limit": min(count, most)}
            rows = await self._database.execute(_EVENTS, {**asked, "kinds": None if kinds is None else [*kinds]})
            piece = await _read(rows, is_last=len(rows) < min(count, most))
            yield piece
            if piece.is_last:
                return
            most, after_seq = most - len(rows), rows[-1].seq
            count = min(max(_MOST_BYTES * len(rows) // max(piece.size, 1), _LEAST), 2 * count, _MOST)


async def _read(rows: Rows, *, is_last: bool) -> _Piece:
    """Return events of rows, whose facts are read in turns."""
    events, size = list[KeyedEvent](), 0
    with Turns() as turns:
        for seq, at_us, kind, key, facts in rows:
            events.append(KeyedEvent(key, ToldEvent(seq, at_us, kind, json.loads(facts))))
            size += len(facts)
            if turns.is_due():
                await turns.give()
    return _Piece(events, size, is_last)


async def _add(session: Session, cluster: int, last_seq: int, events: Sequence[KeyedEvent]) -> int:
    facts: list[Mapping[str, Fact]] = [one.event.facts for one in events]
    columns = {
        "times": [one.event.at_us for one in events],
        "kinds": [one.event.kind for one in events],
        "keys": [one.key for one in events],
        "facts": json.dumps(facts),
    }
    return len(await session.execute(_ADD, {"cluster": cluster, "last_seq": last_seq, **columns}))
