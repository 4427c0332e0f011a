"""The digest of a cloud's state, by which a stored one is known to have come back."""

from __future__ import annotations

import hashlib

import msgspec

from app.domain.values import Resources
from app.engine.cloud.jobrecords import JobRecord
from app.engine.cloud.records import Facts

_ENCODER = msgspec.msgpack.Encoder()


def digest_of(facts: Facts, free: list[Resources]) -> str:
    """Hash a line for each value, and an empty one after each fact: all in one text takes much memory."""
    found = hashlib.sha256()
    for fact in (*facts, free):
        for value in fact if isinstance(fact, list) else [fact]:
            found.update(_line(value))
        found.update(b"\n")
    return found.hexdigest()


def _line(value: object) -> bytes:
    """Return a value as bytes. Jobs can be very many, and their text would take three times as long."""
    return _ENCODER.encode(value) if isinstance(value, JobRecord) else f"{value!r}\n".encode()
