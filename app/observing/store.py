"""Reads every cloud's newest table, newest snapshot, open runs and webhooks in one statement."""

from __future__ import annotations

from dataclasses import dataclass

from app.platform.database.database import Database

_ALL = """
WITH open_run AS (SELECT cloud_id, status, created_at, finished_at FROM forecast_run WHERE status <> 'succeeded')
SELECT c.name, t.epoch, t.epoch_us, t.wall_s, coalesce(s.seq, 0) AS snapshot_seq, r.pending, r.running, r.failed,
    coalesce(r.waiting_s, 0)::float8 AS waiting_s, w.webhooks, w.paused, w.dead_letters
FROM cloud c
LEFT JOIN snapshot s ON s.cloud_id = c.id
LEFT JOIN LATERAL (
    SELECT epoch, epoch_us, wall_s, computed_at FROM quantile_table WHERE cloud_id = c.id ORDER BY epoch DESC LIMIT 1
) t ON true
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE status = 'pending') AS pending,
        count(*) FILTER (WHERE status = 'running') AS running,
        count(*) FILTER (WHERE status = 'failed' AND (t.computed_at IS NULL OR finished_at > t.computed_at)) AS failed,
        extract(epoch FROM now() - min(created_at) FILTER (WHERE status = 'pending')) AS waiting_s
    FROM open_run WHERE open_run.cloud_id = c.id
) r
CROSS JOIN LATERAL (
    SELECT count(*) AS webhooks, count(paused_because) AS paused,
        coalesce(sum((SELECT count(*) FROM webhook_dead d WHERE d.webhook_id = webhook.id)), 0)::bigint AS dead_letters
    FROM webhook WHERE cloud_id = c.id
) w
WHERE NOT c.importing
ORDER BY c.name COLLATE "C"
"""


@dataclass(frozen=True, slots=True)
class Observation:
    """The observation of one cloud. `failed` counts the runs that failed since the newest table was published."""

    cloud: str
    epoch: int | None
    epoch_us: int | None
    wall_s: float | None
    snapshot_seq: int
    pending: int
    running: int
    failed: int
    waiting_s: float
    webhooks: int
    paused: int
    dead_letters: int


class Observations:
    """Reads the observations of all clouds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[Observation]:
        """Return the observation of every cloud, by name."""
        return [Observation(*row) for row in await self._database.execute(_ALL)]
