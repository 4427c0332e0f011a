"""Published quantile tables: written once under their epoch, announced to every process, never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.forecasts.rules import TableSummary
from app.platform.database.database import ConstraintBroken, Database
from app.platform.database.signals import TablePublished, announce

_INSERT = """
INSERT INTO quantile_table (cloud_id, epoch, epoch_us, seq, data, wall_s)
VALUES (%(cloud_id)s, %(epoch)s, %(epoch_us)s, %(seq)s, %(data)s, %(wall_s)s)
"""
_REMOVE_AHEAD = """
DELETE FROM quantile_table WHERE cloud_id = %(cloud_id)s
AND seq > (SELECT coalesce(max(seq), 0) FROM event WHERE cloud_id = %(cloud_id)s) RETURNING epoch
"""
_SUMMARY = "SELECT epoch, epoch_us, seq, computed_at, wall_s FROM quantile_table WHERE cloud_id = %(cloud_id)s"
_NEWEST_OF = """
SELECT wanted.cloud_id, newest.* FROM unnest(%(cloud_ids)s::int[]) AS wanted (cloud_id) CROSS JOIN LATERAL (
    SELECT epoch, epoch_us, seq, computed_at, wall_s FROM quantile_table WHERE cloud_id = wanted.cloud_id
    ORDER BY epoch DESC LIMIT 1
) AS newest
"""
_WHOLE = "SELECT epoch, epoch_us, seq, computed_at, wall_s, data FROM quantile_table WHERE cloud_id = %(cloud_id)s"


class EpochTaken(Exception):
    """Another worker has published a table of this epoch."""


@dataclass(frozen=True, slots=True)
class StoredTable(TableSummary):
    """A published table in its stored form."""

    data: bytes


class Tables:
    """The published tables of all clouds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def publish(self, cloud_id: int, *, epoch: int, epoch_us: int, seq: int, data: bytes, wall_s: float) -> None:
        """Store the table and announce it to every process. Raise EpochTaken if its epoch is already published."""
        parameters = {
            "cloud_id": cloud_id,
            "epoch": epoch,
            "epoch_us": epoch_us,
            "seq": seq,
            "data": data,
            "wall_s": wall_s,
        }
        try:
            async with self._database.transaction() as session:
                await session.execute(_INSERT, parameters)
                await announce(session, TablePublished(cloud_id, epoch))
        except ConstraintBroken as broken:
            if broken.name != "quantile_table_pkey":
                raise
            raise EpochTaken(f"epoch {epoch} of cloud {cloud_id} is published") from broken

    async def remove_ahead(self, cloud_id: int) -> int:
        """Remove tables ahead of a log that was put back, and return their number."""
        rows = await self._database.execute(_REMOVE_AHEAD, {"cloud_id": cloud_id})
        return len(rows)

    async def newest(self, cloud_id: int) -> StoredTable | None:
        """Return the cloud's newest table, or None before the first."""
        rows = await self._database.execute(f"{_WHOLE} ORDER BY epoch DESC LIMIT 1", {"cloud_id": cloud_id})
        return StoredTable(*rows[0]) if rows else None

    async def newest_of(self, cloud_ids: Sequence[int]) -> dict[int, TableSummary]:
        """Return the newest table of each of these clouds that has one, by cloud."""
        rows = await self._database.execute(_NEWEST_OF, {"cloud_ids": list(cloud_ids)})
        return {row.cloud_id: TableSummary(*row[1:]) for row in rows}

    async def get(self, cloud_id: int, epoch: int) -> StoredTable | None:
        """Return the table of an epoch, or None."""
        rows = await self._database.execute(f"{_WHOLE} AND epoch = %(epoch)s", {"cloud_id": cloud_id, "epoch": epoch})
        return StoredTable(*rows[0]) if rows else None

    async def page(self, cloud_id: int, limit: int, before_epoch: int | None = None) -> list[TableSummary]:
        """Return the newest tables before an epoch, newest first, at most `limit`."""
        rows = await self._database.execute(
            f"{_SUMMARY} AND (%(before)s::int IS NULL OR epoch < %(before)s) ORDER BY epoch DESC LIMIT %(limit)s",
            {"cloud_id": cloud_id, "before": before_epoch, "limit": limit},
        )
        return [TableSummary(*row) for row in rows]
