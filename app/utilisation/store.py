"""The history of utilisation in PostgreSQL: a cloud's cores in use, in buckets of time of several widths.

Only buckets in which something happened have a row. A row holds the sums of its bucket up to the last event in it, and
the level from there on. So every bucket without a row has the level of the last row before it. The job `jobs.py` writes
the rows from the event log alone; they can be deleted and computed again. The node '' stands for the whole cloud.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, fields
from itertools import chain
from typing import Any, NamedTuple

from app.platform.database.database import Database, Session
from app.scheduling.store.log import LogAccess

WHOLE = ""
"""Stands in place of a node's name for the cloud as a whole."""


class BucketKey(NamedTuple):
    """A bucket: the node (or WHOLE), the width in seconds, and the number of such widths since second 0."""

    node: str
    width_s: int
    bucket: int


@dataclass(slots=True)
class Level:
    """Cores in use by market, and cores present, since `last_us`."""

    on_demand: int
    spot: int
    total: int
    last_us: int


@dataclass(slots=True)
class Row:
    """A bucket's contents: areas in core-microseconds up to `last_us`, peaks, the level at `last_us`, and counts."""

    last_us: int
    on_demand_area: int = 0
    spot_area: int = 0
    total_area: int = 0
    on_demand_peak: int = 0
    spot_peak: int = 0
    used_peak: int = 0
    on_demand_end: int = 0
    spot_end: int = 0
    total_end: int = 0
    on_demand_admitted: int = 0
    on_demand_rejected: int = 0
    spot_admitted: int = 0
    spot_rejected: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class RollupProgress:
    """The part of a log that is in the history: up to event `seq` at time `at_us`. It begins at `begin_us`."""

    seq: int
    at_us: int
    begin_us: int


_COLUMNS = tuple(field.name for field in fields(Row))
_KEYS = BucketKey._fields
_ADDED = [name for name in _COLUMNS if name.endswith(("_area", "_admitted", "_rejected")) or name == "evicted"]
_HIGHEST = [name for name in _COLUMNS if name.endswith("_peak")]
_TYPES = {"node": "text", "width_s": "int", "bucket": "bigint", "last_us": "bigint"} | {
    name: "numeric" if name.endswith("_area") else "int" for name in _COLUMNS if name != "last_us"
}
_SET = ", ".join(
    f"{name} = utilisation.{name} + EXCLUDED.{name}"
    if name in _ADDED
    else f"{name} = greatest(utilisation.{name}, EXCLUDED.{name})"
    if name in _HIGHEST
    else f"{name} = EXCLUDED.{name}"
    for name in _COLUMNS
)
_NAMES = ", ".join((*_KEYS, *_COLUMNS))
_ADD = f"""
INSERT INTO utilisation (cloud_id, {_NAMES})
SELECT %(cloud_id)s, * FROM unnest({", ".join(f"%({name})s::{_TYPES[name]}[]" for name in (*_KEYS, *_COLUMNS))})
ON CONFLICT (cloud_id, node, width_s, bucket) DO UPDATE SET {_SET}
"""
_SET_LEVELS = """
INSERT INTO utilisation_level (cloud_id, node, on_demand, spot, total, last_us)
SELECT %(cloud_id)s, * FROM unnest(%(node)s::text[], %(on_demand)s::int[], %(spot)s::int[], %(total)s::int[],
                                   %(last_us)s::bigint[])
ON CONFLICT (cloud_id, node) DO UPDATE
SET on_demand = EXCLUDED.on_demand, spot = EXCLUDED.spot, total = EXCLUDED.total, last_us = EXCLUDED.last_us
"""
_BEGIN = """
INSERT INTO utilisation_progress (cloud_id, seq, at_us, begin_us) VALUES (%(cloud_id)s, 0, 0, 0)
ON CONFLICT (cloud_id) DO NOTHING
"""
_BEHIND = """
SELECT cloud.id FROM cloud LEFT JOIN utilisation_progress AS kept ON kept.cloud_id = cloud.id
WHERE NOT cloud.importing AND coalesce(kept.seq, 0) <> (SELECT max(seq) FROM event WHERE event.cloud_id = cloud.id)
ORDER BY cloud.id
"""
_LOCK = """
SELECT seq, at_us, begin_us FROM utilisation_progress WHERE cloud_id = %(cloud_id)s FOR UPDATE SKIP LOCKED
"""
_BEGIN_ANEW = (
    "DELETE FROM utilisation WHERE cloud_id = %(cloud_id)s",
    "DELETE FROM utilisation_level WHERE cloud_id = %(cloud_id)s",
    "UPDATE utilisation_progress SET seq = 0, at_us = 0, begin_us = 0 WHERE cloud_id = %(cloud_id)s",
)
# Of each series it deletes all rows that are too old but the last of them, which holds the level after it.
_PRUNE = """
DELETE FROM utilisation USING unnest(%(nodes)s::text[]) AS touched (name)
WHERE cloud_id = %(cloud_id)s AND node = touched.name AND width_s = %(width_s)s AND bucket < (
    SELECT max(kept.bucket) FROM utilisation AS kept WHERE kept.cloud_id = %(cloud_id)s AND kept.node = touched.name
    AND kept.width_s = %(width_s)s AND kept.bucket <= %(bucket)s
)
"""
_RANGE = f"""
SELECT {_NAMES} FROM utilisation WHERE cloud_id = %(cloud_id)s AND node = ANY(%(nodes)s::text[])
AND width_s = %(width_s)s AND bucket >= %(first)s AND bucket <= %(last)s ORDER BY node, bucket
"""
_BEFORE = f"""
SELECT earlier.* FROM unnest(%(nodes)s::text[]) AS wanted (name) CROSS JOIN LATERAL (
    SELECT {_NAMES} FROM utilisation WHERE cloud_id = %(cloud_id)s AND node = wanted.name
    AND width_s = %(width_s)s AND bucket < %(first)s ORDER BY bucket DESC LIMIT 1
) AS earlier
"""


class UtilisationRows:
    """Reads the history and gives turns at writing it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def progress(self, cloud_id: int) -> RollupProgress | None:
        """Return how much of the log is in the history; None if it was not begun."""
        rows = await self._database.execute(
            "SELECT seq, at_us, begin_us FROM utilisation_progress WHERE cloud_id = %(cloud_id)s AND seq > 0",
            {"cloud_id": cloud_id},
        )
        return RollupProgress(*rows[0]) if rows else None

    async def behind(self) -> list[int]:
        """Return the clouds whose logs do not end where their histories do."""
        return [row.id for row in await self._database.execute(_BEHIND)]

    async def rows(
        self, cloud_id: int, nodes: Sequence[str], width_s: int, first: int, last: int
    ) -> list[tuple[BucketKey, Row]]:
        """Return these series' buckets in a range, and for each series the last one before it."""
        parameters = {
            "cloud_id": cloud_id, "nodes": list(nodes), "width_s": width_s, "first": first, "last": last,
        }  # fmt: skip
        before = await self._database.execute(_BEFORE, parameters)
        return [_read(row) for row in chain(before, await self._database.execute(_RANGE, parameters))]

    @asynccontextmanager
    async def turn(self, cloud_id: int) -> AsyncIterator[RollupTurn | None]:
        """Open a turn at writing a cloud's history in one transaction; None if another process has it."""
        await self._database.execute(_BEGIN, {"cloud_id": cloud_id})
        async with self._database.transaction() as session:
            rows = await session.execute(_LOCK, {"cloud_id": cloud_id})
            yield RollupTurn(session, cloud_id, RollupProgress(*rows[0])) if rows else None


class RollupTurn:
    """One transaction that writes a cloud's history. `log` reads the event log over the same connection."""

    def __init__(self, session: Session, cloud_id: int, progress: RollupProgress) -> None:
        self._session = session
        self._cloud_id = cloud_id
        self.progress = progress
        self.log = LogAccess(session)

    async def begin_anew(self) -> None:
        """Delete the history, to be computed again from the log's beginning."""
        for statement in _BEGIN_ANEW:
            await self._session.execute(statement, {"cloud_id": self._cloud_id})

    async def levels(self, nodes: Iterable[str]) -> dict[str, Level]:
        """Return the present levels of these series; unknown series are left out."""
        rows = await self._session.execute(
            "SELECT node, on_demand, spot, total, last_us FROM utilisation_level "
            "WHERE cloud_id = %(cloud_id)s AND node = ANY(%(nodes)s::text[])",
            {"cloud_id": self._cloud_id, "nodes": list(nodes)},
        )
        return {row.node: Level(row.on_demand, row.spot, row.total, row.last_us) for row in rows}

    async def add(self, rows: dict[BucketKey, Row], levels: dict[str, Level], progress: RollupProgress) -> None:
        """Add to the buckets and store the new `progress`."""
        named = [(*key, *astuple(row)) for key, row in rows.items()]
        await self._session.execute(_ADD, self._columns((*_KEYS, *_COLUMNS), named))
        standing = [(node, *astuple(level)) for node, level in levels.items()]
        await self._session.execute(
            _SET_LEVELS, self._columns(("node", "on_demand", "spot", "total", "last_us"), standing)
        )
        await self._session.execute(
            "UPDATE utilisation_progress SET seq = %(seq)s, at_us = %(at_us)s, begin_us = %(begin_us)s "
            "WHERE cloud_id = %(cloud_id)s",
            {"cloud_id": self._cloud_id, "seq": progress.seq, "at_us": progress.at_us, "begin_us": progress.begin_us},
        )

    async def prune(self, nodes: Sequence[str], width_s: int, bucket: int) -> None:
        """Delete these series' buckets of a width before a given one, but keep the last, which holds the level after
        it.
        """
        await self._session.execute(
            _PRUNE, {"cloud_id": self._cloud_id, "nodes": list(nodes), "width_s": width_s, "bucket": bucket}
        )

    def _columns(self, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, object]:
        columns = zip(*rows, strict=True) if rows else ([] for _ in names)
        return {"cloud_id": self._cloud_id} | {name: list(column) for name, column in zip(names, columns, strict=True)}


def _read(row: Sequence[Any]) -> tuple[BucketKey, Row]:
    count = len(_KEYS)
    return BucketKey(*row[:count]), Row(*(int(value) for value in row[count:]))
