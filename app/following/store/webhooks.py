"""Webhook subscriptions, their progress, and dead letters. The events themselves stay in the log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from app.platform.database.database import AnyRow, Database
from app.platform.database.lockids import webhook_lock

PUT_BACK_CODE = "preemptible.log.put_back"
"""The beginning of `paused_because` where the log was put back. Schema 0010 writes it too."""
_COLUMNS = """
webhook.id, cloud.name AS cloud, webhook.cloud_id, webhook.url, webhook.secret, webhook.kinds, webhook.paused_because,
webhook.created_at, webhook.delivered_count, webhook.delivered_at, webhook.last_error,
webhook.urgent_seq, webhook.urgent_attempts, webhook.urgent_retry_at,
webhook.ordinary_seq, webhook.ordinary_attempts, webhook.ordinary_retry_at,
(SELECT count(*) FROM webhook_dead dead WHERE dead.webhook_id = webhook.id) AS dead_count
"""
_FROM = "FROM webhook JOIN cloud ON cloud.id = webhook.cloud_id AND NOT cloud.importing"
_INSERT = """
INSERT INTO webhook (cloud_id, url, secret, kinds, urgent_seq, ordinary_seq)
SELECT %(cloud_id)s, %(url)s, %(secret)s, %(kinds)s::text[], %(after_seq)s, %(after_seq)s
WHERE (SELECT count(*) FROM webhook WHERE cloud_id = %(cloud_id)s) < %(most)s
RETURNING id
"""
_DELETE = "DELETE FROM webhook WHERE cloud_id = %(cloud_id)s AND id = %(id)s RETURNING id"
_PAUSE = "UPDATE webhook SET paused_because = %(why)s WHERE id = %(id)s AND paused_because IS NULL"
# A place after the end of a log that was put back is none.
_RESUME = """
UPDATE webhook SET paused_because = NULL, urgent_attempts = 0, urgent_retry_at = NULL, ordinary_attempts = 0,
    ordinary_retry_at = NULL,
    urgent_seq = least(urgent_seq, (SELECT coalesce(max(seq), 0) FROM event WHERE cloud_id = webhook.cloud_id)),
    ordinary_seq = least(ordinary_seq, (SELECT coalesce(max(seq), 0) FROM event WHERE cloud_id = webhook.cloud_id))
WHERE id = %(id)s AND paused_because IS NOT NULL
"""
# One text for each lane, since a column's name cannot be a parameter. Each applies only to a caller that knows how
# far the lane has got. A lane moves only to an event that the log has: the caller may have read it before a cut.
_SETTLE = {
    lane: f"""
UPDATE webhook SET {lane}_seq = %(seq)s, {lane}_attempts = 0, {lane}_retry_at = NULL,
    delivered_count = delivered_count + %(delivered)s::int,
    delivered_at = CASE WHEN %(delivered)s::int > 0 THEN now() ELSE delivered_at END,
    last_error = CASE WHEN %(delivered)s::int > 0 THEN NULL ELSE last_error END
WHERE id = %(id)s AND {lane}_seq = %(known_seq)s AND paused_because IS NULL
AND EXISTS (
    SELECT FROM event WHERE event.cloud_id = webhook.cloud_id AND seq = %(seq)s AND at_us = coalesce(%(at_us)s, at_us)
) RETURNING id
"""
    for lane in ("urgent", "ordinary")
}
_POSTPONE = {
    lane: f"""
UPDATE webhook SET {lane}_attempts = %(attempts)s, last_error = %(error)s,
    {lane}_retry_at = now() + make_interval(secs => %(pause_s)s)
WHERE id = %(id)s AND {lane}_seq = %(known_seq)s AND {lane}_attempts = %(attempts)s - 1 AND paused_because IS NULL
RETURNING id
"""
    for lane in ("urgent", "ordinary")
}
_PUT_BACK = f"SELECT id, created_at, coalesce(paused_because LIKE '{PUT_BACK_CODE}:%%', false) FROM webhook"
_BURY = """
INSERT INTO webhook_dead (webhook_id, seq, kind, attempts, error)
VALUES (%(id)s, %(seq)s, %(kind)s, %(attempts)s, %(error)s) ON CONFLICT DO NOTHING
"""
_DEAD = "SELECT seq, kind, attempts, error, died_at, replay_asked_at FROM webhook_dead WHERE webhook_id = %(id)s"
_ASK = """
UPDATE webhook_dead SET replay_asked_at = now()
WHERE webhook_id = %(id)s AND (%(seqs)s::bigint[] IS NULL OR seq = ANY(%(seqs)s::bigint[])) RETURNING seq
"""


class Lane(StrEnum):
    """A lane of deliveries: events that must not wait, or the rest."""

    URGENT = "urgent"
    ORDINARY = "ordinary"


class LaneProgress(NamedTuple):
    """A lane's progress: all of its events up to `seq` are settled; the rest tells of attempts at the next one."""

    seq: int
    attempts: int
    retry_at: datetime | None


class Identity(NamedTuple):
    """The number and the creation of a subscription.

    After a backup is put back, a new subscription may get the number of one that the backup does not hold.
    """

    id: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Webhook:
    """A subscription. `kinds` is None for every kind; `paused_because` is None while it is active."""

    id: int
    cloud: str
    cloud_id: int
    url: str
    secret: str = field(repr=False)
    kinds: Sequence[str] | None
    paused_because: str | None
    created_at: datetime
    delivered_count: int
    delivered_at: datetime | None
    last_error: str | None
    urgent: LaneProgress
    ordinary: LaneProgress
    dead_count: int

    @property
    def identity(self) -> Identity:
        """The subscription itself, which no other of the same number shares."""
        return Identity(self.id, self.created_at)


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that a receiver did not take in all attempts."""

    seq: int
    kind: str
    attempts: int
    error: str
    died_at: datetime
    replay_asked_at: datetime | None


class Webhooks:
    """The subscriptions of all clouds."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(
        self, cloud_id: int, url: str, secret: str, kinds: Sequence[str] | None, after_seq: int, most: int
    ) -> int | None:
        """Create a subscription and return its id; None if the cloud has as many as it may have."""
        lock_space, lock_id = webhook_lock(cloud_id)
        parameters = {
            "cloud_id": cloud_id,
            "url": url,
            "secret": secret,
            "kinds": None if kinds is None else list(kinds),
            "after_seq": after_seq,
            "most": most,
        }
        async with self._database.transaction() as session:
            await session.execute("SELECT pg_advisory_xact_lock(%(a)s, %(b)s)", {"a": lock_space, "b": lock_id})
            rows = await session.execute(_INSERT, parameters)
        return int(rows[0].id) if rows else None

    async def page(self, cloud_id: int, limit: int, after_id: int) -> list[Webhook]:
        """Return a cloud's subscriptions after an id, oldest first."""
        sql = f"SELECT {_COLUMNS} {_FROM} WHERE cloud_id = %(cloud_id)s AND webhook.id > %(after_id)s"
        return await self._read(
            f"{sql} ORDER BY webhook.id LIMIT %(limit)s", {"cloud_id": cloud_id, "after_id": after_id, "limit": limit}
        )

    async def get(self, cloud_id: int, webhook_id: int) -> Webhook | None:
        """Return one of a cloud's subscriptions."""
        sql = f"SELECT {_COLUMNS} {_FROM} WHERE cloud_id = %(cloud_id)s AND webhook.id = %(id)s"
        return next(iter(await self._read(sql, {"cloud_id": cloud_id, "id": webhook_id})), None)

    async def active(self) -> list[Webhook]:
        """Return all subscriptions that are not paused."""
        return await self._read(f"SELECT {_COLUMNS} {_FROM} WHERE paused_because IS NULL ORDER BY webhook.id", {})

    async def delete(self, cloud_id: int, webhook_id: int) -> bool:
        """Delete a subscription and its dead letters; return False if there was none."""
        return bool(await self._database.execute(_DELETE, {"cloud_id": cloud_id, "id": webhook_id}))

    async def put_back(self) -> dict[Identity, bool]:
        """Return all subscriptions, and for each whether it is paused because its log was put back."""
        rows = await self._database.execute(_PUT_BACK)
        return {Identity(webhook_id, created_at): is_put_back for webhook_id, created_at, is_put_back in rows}

    async def pause(self, webhook_id: int, why: str) -> None:
        """Deliver nothing until `resume`. Its place in the log is kept."""
        await self._database.execute(_PAUSE, {"id": webhook_id, "why": why})

    async def resume(self, webhook_id: int) -> None:
        """Continue where it was paused; the next attempt is due at once."""
        await self._database.execute(_RESUME, {"id": webhook_id})

    async def settle(
        self, webhook_id: int, lane: Lane, known_seq: int, seq: int, *, delivered: int, at_us: int | None = None
    ) -> bool:
        """Move the lane on to `seq`; return False if it was paused, deleted, or moved by another courier.

        It also returns False if the log holds no such event, or one of another time than `at_us`.
        """
        parameters = {"id": webhook_id, "known_seq": known_seq, "seq": seq, "delivered": delivered, "at_us": at_us}
        return bool(await self._database.execute(_SETTLE[lane], parameters))

    async def postpone(
        self, webhook_id: int, lane: Lane, known_seq: int, attempts: int, pause_s: float, error: str
    ) -> bool:
        """Retry the lane's next event after a pause; return False as `settle` does.

        It also returns False if the stored number of attempts is no longer `attempts - 1`, because `resume` began anew.
        """
        parameters = {
            "id": webhook_id,
            "known_seq": known_seq,
            "attempts": attempts,
            "pause_s": pause_s,
            "error": error,
        }
        return bool(await self._database.execute(_POSTPONE[lane], parameters))

    async def bury(self, webhook_id: int, lane: Lane, known_seq: int, letter: DeadLetter) -> bool:
        """Move the lane's next event to the dead letters and go on; return False as `settle` does."""
        parameters = {
            "id": webhook_id,
            "known_seq": known_seq,
            "seq": letter.seq,
            "kind": letter.kind,
            "attempts": letter.attempts,
            "error": letter.error,
            "delivered": 0,
            "at_us": None,
        }
        async with self._database.transaction() as session:
            moved = bool(await session.execute(_SETTLE[lane], parameters))
            if moved:
                await session.execute(_BURY, parameters)
        return moved

    async def dead(self, webhook_id: int, after_seq: int, limit: int) -> list[DeadLetter]:
        """Return dead letters after a seq, in log order."""
        rows = await self._database.execute(
            f"{_DEAD} AND seq > %(after_seq)s ORDER BY seq LIMIT %(limit)s",
            {"id": webhook_id, "after_seq": after_seq, "limit": limit},
        )
        return [DeadLetter(*row) for row in rows]

    async def ask_replay(self, webhook_id: int, seqs: Sequence[int] | None) -> int:
        """Mark dead letters for one more attempt, all of them or those of these seqs; return how many."""
        asked = None if seqs is None else list(seqs)
        return len(await self._database.execute(_ASK, {"id": webhook_id, "seqs": asked}))

    async def asked(self, webhook_id: int, limit: int) -> list[DeadLetter]:
        """Return the dead letters that are marked for one more attempt, in log order."""
        rows = await self._database.execute(
            f"{_DEAD} AND replay_asked_at IS NOT NULL ORDER BY seq LIMIT %(limit)s", {"id": webhook_id, "limit": limit}
        )
        return [DeadLetter(*row) for row in rows]

    async def revive(self, webhook_id: int, seq: int) -> None:
        """Remove a dead letter that was taken after all."""
        await self._database.execute(
            "WITH gone AS (DELETE FROM webhook_dead WHERE webhook_id = %(id)s AND seq = %(seq)s RETURNING seq) "
            "UPDATE webhook SET delivered_count = delivered_count + 1, delivered_at = now() "
            "WHERE id = %(id)s AND EXISTS (SELECT FROM gone)",
            {"id": webhook_id, "seq": seq},
        )

    async def die_again(self, webhook_id: int, seq: int, error: str) -> None:
        """Store that a dead letter was tried once more and not taken."""
        await self._database.execute(
            "UPDATE webhook_dead SET replay_asked_at = NULL, attempts = attempts + 1, error = %(error)s "
            "WHERE webhook_id = %(id)s AND seq = %(seq)s AND replay_asked_at IS NOT NULL",
            {"id": webhook_id, "seq": seq, "error": error},
        )

    async def _read(self, sql: str, parameters: dict[str, object]) -> list[Webhook]:
        rows = await self._database.execute(sql, parameters)
        return [_webhook(row) for row in rows]


def _webhook(row: AnyRow) -> Webhook:
    return Webhook(
        *row[:11],
        urgent=LaneProgress(*row[11:14]),
        ordinary=LaneProgress(*row[14:17]),
        dead_count=row[17],  # type: ignore[misc]
    )
