"""Snapshots of a cloud's state, so that starting up need not fold the whole log.

A snapshot counts only if this version can read it and it reproduces the digest of its state. Otherwise the log is
folded from its start.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from app.domain.events.formats import LOG_FORMAT
from app.engine.cloud import Cloud, Facts, JobRecord, Running
from app.platform.database.database import Database
from app.platform.turns import COLLECTOR

T = TypeVar("T")

logger = logging.getLogger(__name__)

_SHAPE = 20
_FORMATS = 100
_VERSION = LOG_FORMAT * _FORMATS + _SHAPE
"""Includes the log's format, so that an older program does not take a newer one's state for its own."""
_SAVE = """
INSERT INTO snapshot (cloud_id, seq, version, digest, data)
VALUES (%(cloud_id)s, %(seq)s, %(version)s, %(digest)s, %(data)s)
ON CONFLICT (cloud_id) DO UPDATE
SET seq = EXCLUDED.seq, version = EXCLUDED.version, digest = EXCLUDED.digest, data = EXCLUDED.data, taken_at = now()
WHERE snapshot.seq <= EXCLUDED.seq
"""


_BESIDE = ThreadPoolExecutor(2, thread_name_prefix="snapshots")
"""Few threads: each takes turns with the event loop, and a large state keeps only one of them for seconds."""
_ENCODER = msgspec.msgpack.Encoder()
_RUNNING, _JOB = msgspec.msgpack.Decoder(Running), msgspec.msgpack.Decoder(JobRecord)
_RAW = {"running": list[msgspec.Raw], "jobs": list[msgspec.Raw]}
_STORED = msgspec.msgpack.Decoder(NamedTuple("_Stored", [*{**get_type_hints(Facts), **_RAW}.items()]))
"""Leaves running instances and jobs undecoded. Hundreds of thousands in one call would keep the event loop waiting."""


class Snapshots:
    """The newest snapshot of each cloud."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, cloud_id: int, cloud: Cloud) -> None:
        """Store the present state, unless there is a newer snapshot."""
        facts_now = cloud.facts_now()

        def encoded() -> dict[str, object]:
            facts, digest = facts_now()
            return {"seq": facts.seq, "version": _VERSION, "digest": digest, "data": _encode(facts)}

        await self._database.execute(_SAVE, {"cloud_id": cloud_id, **await _beside(encoded)})

    async def load(self, cloud_id: int) -> Cloud | None:
        """Return the state of the newest snapshot, or None if there is none that can be used."""
        rows = await self._database.execute(
            "SELECT version, digest, data FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id}
        )
        if not rows or not _is_known(rows[0].version):
            return None
        cloud = await _beside(lambda: _decode(rows[0].data, rows[0].digest))
        if cloud is None:
            logger.warning(
                "the snapshot is not what was saved; the log is folded from its start", extra={"cloud_id": cloud_id}
            )
            return None
        return cloud

    async def forget(self, cloud_id: int) -> None:
        """Remove the cloud's snapshot, which belongs to another log than the present one."""
        await self._database.execute("DELETE FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id})

    async def newest_seq(self, cloud_id: int) -> int | None:
        """Return the seq of the newest snapshot that this version can read, or None."""
        rows = await self._database.execute(
            "SELECT seq, version FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id}
        )
        return int(rows[0].seq) if rows and _is_known(rows[0].version) else None


def _is_known(version: int) -> bool:
    log_format, shape = divmod(version, _FORMATS)
    return log_format <= LOG_FORMAT and shape == _SHAPE


def encode_cloud(cloud: Cloud) -> bytes:
    """Return the state's facts, compressed. The state must not contain uncommitted events."""
    return _encode(cloud.facts())


def _encode(facts: Facts) -> bytes:
    running: list[Any] = [msgspec.Raw(_ENCODER.encode(one)) for one in facts.running]
    return zlib.compress(_ENCODER.encode(facts._replace(running=running)), 1)


def _decode(data: bytes, digest: str) -> Cloud | None:
    """Return the state that was saved with this digest, or None if it does not come back."""
    with COLLECTOR.waits():
        cloud = decode_cloud(data)
        if cloud is not None and cloud.digest() == digest:
            return cloud
    COLLECTOR.looks_again()
    return None


async def _beside(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(_BESIDE, work)


def decode_cloud(data: bytes) -> Cloud | None:
    """Return the state that `encode_cloud` wrote, or None if the bytes are no such state."""
    try:
        stored = _STORED.decode(zlib.decompress(data))
        # One after the other: all of them at once would be in memory twice.
        running, jobs = map(_RUNNING.decode, stored.running), map(_JOB.decode, stored.jobs)
        return Cloud.of_facts(Facts(*stored)._replace(running=running, jobs=jobs))
    except (zlib.error, msgspec.DecodeError):
        return None
