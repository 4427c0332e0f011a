"""Snapshots of a cloud's state, so that starting up need not fold the whole log.

A snapshot counts only if this version can read it and it reproduces the digest of its state. Otherwise the log is
folded from its start.
"""

from __future__ import annotations

import logging
import zlib
from dataclasses import dataclass, field

import msgspec

from app.domain.events.formats import LOG_FORMAT
from app.engine.cloud import Cloud, Facts
from app.platform.database.database import Database
from app.scheduling.store.log import NO_EVENT, EventMark

logger = logging.getLogger(__name__)

_SHAPE = 4
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


_DECODER = msgspec.msgpack.Decoder(tuple[int, Facts])


@dataclass(slots=True)
class MarkedState:
    """A cloud's state, and the mark of the last event that was folded into it and is in the log."""

    cloud: Cloud = field(default_factory=Cloud)
    mark: EventMark = NO_EVENT


class Snapshots:
    """The newest snapshot of each cloud."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, cloud_id: int, state: MarkedState) -> None:
        """Store the present state, unless there is a newer snapshot."""
        parameters = {
            "cloud_id": cloud_id,
            "seq": state.mark.seq,
            "version": _VERSION,
            "digest": state.cloud.digest(),
            "data": encode_state(state),
        }
        await self._database.execute(_SAVE, parameters)

    async def load(self, cloud_id: int) -> MarkedState | None:
        """Return the state of the newest snapshot, or None if there is none that can be used."""
        rows = await self._database.execute(
            "SELECT version, digest, data FROM snapshot WHERE cloud_id = %(cloud_id)s", {"cloud_id": cloud_id}
        )
        if not rows or not _is_known(rows[0].version):
            return None
        state = decode_state(rows[0].data)
        if state is None or state.cloud.digest() != rows[0].digest:
            logger.warning(
                "the snapshot is not what was saved; the log is folded from its start", extra={"cloud_id": cloud_id}
            )
            return None
        return state

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


def encode_state(state: MarkedState) -> bytes:
    """Return the state's facts with its last event's digest, compressed. All its events must be committed."""
    return zlib.compress(msgspec.msgpack.encode((state.mark.digest, state.cloud.facts())), 1)


def decode_state(data: bytes) -> MarkedState | None:
    """Return the state that `encode_state` wrote, or None if the bytes are no such state."""
    try:
        digest, facts = _DECODER.decode(zlib.decompress(data))
    except (zlib.error, msgspec.DecodeError):
        return None
    cloud = Cloud.of_facts(facts)
    return MarkedState(cloud, EventMark(cloud.seq, digest))
