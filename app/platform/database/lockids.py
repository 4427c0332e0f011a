"""Numbers of PostgreSQL's advisory locks in their two-number form: the kind of lock and the cloud."""

from __future__ import annotations

from zlib import crc32

LockId = tuple[int, int]


def _number(name: str) -> int:
    """Return a stable signed 32-bit number for a name, unlikely to be used by another application."""
    return crc32(f"tenure.{name}".encode()) - (1 << 31)


MIGRATION_LOCK: LockId = (_number("migration"), 0)
TOKEN_LOCK: LockId = (_number("token"), 0)
FIRST_TOKEN_LOCK: LockId = (_number("first_token"), 0)
"""Held to replace or show the admin token that nobody has used yet."""
DELIVERY_LOCK: LockId = (_number("delivery"), 0)
"""Held to deliver to webhooks."""


VENUE_LOCK: LockId = (_number("venue"), 0)
"""Held to write prices of venues."""


def refit_lock(venue_id: int) -> LockId:
    """Return the lock that a process holds to fit a venue's model."""
    return _number("venue_refit"), venue_id


def log_lock(cloud_id: int) -> LockId:
    """Return the lock that a process holds to append to a cloud's log."""
    return _number("log"), cloud_id


def forecast_lock(cloud_id: int) -> LockId:
    """Return the lock that a process holds to recompute a cloud's quantile table."""
    return _number("forecast"), cloud_id


def webhook_lock(cloud_id: int) -> LockId:
    """Return the lock that a process holds to add a webhook to a cloud."""
    return _number("webhook"), cloud_id


def federation_lock(cloud_id: int) -> LockId:
    """Return the lock that a process holds to do what is due by the clock for a cloud's jobs."""
    return _number("federation"), cloud_id


def data_lock(cloud_id: int) -> LockId:
    """Return the lock that a process holds to move the data of a cloud's jobs."""
    return _number("data"), cloud_id


def peer_lock(cloud_id: int, peer: str) -> LockId:
    """Return the lock that a process holds to speak to a peer for a cloud."""
    return _number(f"peer.{peer}"), cloud_id


def import_lock(cloud_id: int) -> LockId:
    """Return the lock that a process holds to import a cloud's past."""
    return _number("import"), cloud_id
