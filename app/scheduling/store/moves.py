"""Reads of the moves of instances. Each goes by an index, so that a longer log costs no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.domain.events import InstanceMoved, Recorded
from app.scheduling.store.log import LogAccess

_SELECT = "SELECT seq, kind, version, data::text FROM event WHERE cloud_id = %(cloud_id)s"
_OF_ONE = f"{_SELECT} AND instance_id = %(instance_id)s AND kind = 'instance_moved' ORDER BY seq DESC LIMIT %(limit)s"
_NEWEST_OF = f"""
SELECT found.* FROM unnest(%(instance_ids)s::text[]) AS wanted (id) CROSS JOIN LATERAL (
    {_SELECT} AND instance_id = wanted.id AND kind = 'instance_moved'
    AND seq < %(before_seq)s ORDER BY seq DESC LIMIT 1
) AS found
"""
_NEWEST_FLAVOR_OF = _NEWEST_OF.replace("AND seq <", "AND data ->> 'as_flavor' IS NOT NULL AND seq <")


async def moves_of(log: LogAccess, cloud_id: int, instance_id: str, limit: int) -> list[Recorded]:
    """Return the newest moves of an instance, at most `limit`, in log order."""
    parameters = {"cloud_id": cloud_id, "instance_id": instance_id, "limit": limit}
    return (await log.query(_OF_ONE, parameters))[::-1]


async def newest_moves(
    log: LogAccess, cloud_id: int, instance_ids: Sequence[str], before_seq: int = 1 << 62
) -> dict[str, InstanceMoved]:
    """Return the newest move before a seq of each of these instances, without those that were never moved.

    Each tells the flavor that was observed last.
    """
    found = await _moves(log, _NEWEST_OF, cloud_id, instance_ids, before_seq)
    untold = [name for name, move in found.items() if move.as_flavor is None]
    observed = await _moves(log, _NEWEST_FLAVOR_OF, cloud_id, untold, before_seq) if untold else {}
    return found | {name: replace(found[name], as_flavor=move.as_flavor) for name, move in observed.items()}


async def _moves(
    log: LogAccess, sql: str, cloud_id: int, instance_ids: Sequence[str], before_seq: int
) -> dict[str, InstanceMoved]:
    parameters = {"cloud_id": cloud_id, "instance_ids": list(instance_ids), "before_seq": before_seq}
    events = [item.event for item in await log.query(sql, parameters)]
    return {event.instance_id: event for event in events if isinstance(event, InstanceMoved)}
