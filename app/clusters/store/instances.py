"""Reads of the instances whose ids begin with a cluster's name, from the logs of the clouds."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import InstanceStarted, Recorded
from app.scheduling.store.log import LogAccess

_STARTED = """
SELECT seq, kind, version, (data - 'allowed')::text FROM event WHERE cloud_id = %(cloud_id)s AND seq > %(after_seq)s
AND seq <= %(up_to_seq)s AND kind = 'instance_started' AND starts_with(instance_id, %(prefix)s) ORDER BY seq
"""
_STARTED_AS = """
SELECT seq, kind, version, (data - 'allowed')::text FROM event WHERE cloud_id = %(cloud_id)s AND seq <= %(up_to_seq)s
AND kind = 'instance_started' AND instance_id = ANY(%(ids)s::text[]) ORDER BY seq
"""


async def started(log: LogAccess, cloud_id: int, prefix: str, after_seq: int, up_to_seq: int) -> list[tuple[str, int]]:
    """Return the ids and the times of the accepted starts after one seq, up to another, with this begin of the id."""
    parameters = {"cloud_id": cloud_id, "prefix": prefix, "after_seq": after_seq, "up_to_seq": up_to_seq}
    return [_start(recorded) for recorded in await log.query(_STARTED, parameters)]


async def started_as(log: LogAccess, cloud_id: int, ids: Sequence[str], up_to_seq: int) -> list[tuple[str, int]]:
    """Return the ids and the times of those of these instances whose start was accepted up to a seq."""
    parameters = {"cloud_id": cloud_id, "ids": [*ids], "up_to_seq": up_to_seq}
    return [_start(recorded) for recorded in await log.query(_STARTED_AS, parameters)]


def _start(recorded: Recorded) -> tuple[str, int]:
    assert isinstance(recorded.event, InstanceStarted)
    return recorded.event.instance_id, recorded.event.at_us
