"""Reads how far a cloud has got, in one small statement by indexes alone, to find out if anything changed."""

from __future__ import annotations

from dataclasses import dataclass

from app.platform.database.database import Database

_PULSE = """
SELECT
    (SELECT coalesce(max(seq), 0) FROM event WHERE cloud_id = %(cloud_id)s) AS seq,
    (SELECT coalesce(max(epoch), 0) FROM quantile_table WHERE cloud_id = %(cloud_id)s) AS epoch,
    (SELECT id || ' ' || status FROM forecast_run WHERE cloud_id = %(cloud_id)s ORDER BY id DESC LIMIT 1) AS run,
    (SELECT seq FROM utilisation_progress WHERE cloud_id = %(cloud_id)s) AS utilisation_seq
"""


@dataclass(frozen=True, slots=True)
class Pulse:
    """The ends of a cloud's log and tables, its newest run, and the end of its history of utilisation."""

    seq: int
    epoch: int
    run: str | None
    utilisation_seq: int | None


class Pulses:
    """Reads the pulses of clouds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, cloud_id: int) -> Pulse:
        """Return the cloud's pulse."""
        rows = await self._database.execute(_PULSE, {"cloud_id": cloud_id})
        return Pulse(*rows[0])
