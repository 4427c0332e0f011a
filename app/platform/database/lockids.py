"""Numbers of PostgreSQL's advisory locks, in their two-number form: what is locked, and of which cloud."""

from __future__ import annotations

from zlib import crc32

LockId = tuple[int, int]


def _number(name: str) -> int:
    """A stable signed 32-bit number for a name, unlikely to be another application's."""
    return crc32(f"tenure.{name}".encode()) - (1 << 31)


MIGRATION_LOCK: LockId = (_number("migration"), 0)
TOKEN_LOCK: LockId = (_number("token"), 0)
FIRST_TOKEN_LOCK: LockId = (_number("first_token"), 0)
"""Who has shown the admin token that nobody has used yet."""
DELIVERY_LOCK: LockId = (_number("delivery"), 0)
"""Who delivers to webhooks."""
_LOG = _number("log")
_FORECAST = _number("forecast")
_WEBHOOK = _number("webhook")
_IMPORT = _number("import")


def log_lock(cloud_id: int) -> LockId:
    """Whose turn it is to append to a cloud's log."""
    return _LOG, cloud_id


def forecast_lock(cloud_id: int) -> LockId:
    """Who recomputes a cloud's quantile table."""
    return _FORECAST, cloud_id


def webhook_lock(cloud_id: int) -> LockId:
    """Who adds a webhook to a cloud."""
    return _WEBHOOK, cloud_id


def import_lock(cloud_id: int) -> LockId:
    """Who imports a cloud's past."""
    return _IMPORT, cloud_id
