"""Reads of the decisions on longer lifetimes. Each goes by an index, so that a longer log costs no more."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import ExtensionRejected, InstanceExtended, Recorded
from app.domain.events.registry import EXTENSIONS
from app.scheduling.store.log import LogAccess

_SELECT = "SELECT seq, kind, version, data::text FROM event WHERE cloud_id = %(cloud_id)s"
_OF_ONE = f"{_SELECT} AND instance_id = %(instance_id)s AND kind IN {EXTENSIONS} ORDER BY seq DESC LIMIT %(limit)s"
# Lifetimes of one instance only grow, so the longest is the newest.
_NEWEST_OF = f"""
SELECT found.* FROM unnest(%(instance_ids)s::text[]) AS wanted (id) CROSS JOIN LATERAL (
    {_SELECT} AND instance_id = wanted.id AND kind IN {EXTENSIONS} AND kind = 'instance_extended'
    ORDER BY (data->>'lifetime_us')::bigint DESC LIMIT 1
) AS found
"""
_ACCEPTED = f"""
SELECT found.* FROM unnest(%(instance_ids)s::text[], %(lifetimes)s::bigint[]) AS asked (id, lifetime_us)
CROSS JOIN LATERAL (
    {_SELECT} AND instance_id = asked.id AND kind IN {EXTENSIONS} AND kind = 'instance_extended'
    AND (data->>'lifetime_us')::bigint = asked.lifetime_us LIMIT 1
) AS found
"""
_REFUSED = f"""
SELECT found.* FROM unnest(%(instance_ids)s::text[], %(lifetimes)s::bigint[], %(times)s::bigint[])
AS asked (id, lifetime_us, at_us) CROSS JOIN LATERAL (
    {_SELECT} AND instance_id = asked.id AND kind IN {EXTENSIONS} AND kind = 'extension_rejected'
    AND (data->>'lifetime_us')::bigint = asked.lifetime_us AND event.at_us = asked.at_us LIMIT 1
) AS found
"""


async def decisions_on(log: LogAccess, cloud_id: int, instance_id: str, limit: int) -> list[Recorded]:
    """Return the newest decisions on longer lifetimes of an instance, at most `limit`, in log order."""
    parameters = {"cloud_id": cloud_id, "instance_id": instance_id, "limit": limit}
    return (await log.query(_OF_ONE, parameters))[::-1]


async def newest_extensions(log: LogAccess, cloud_id: int, instance_ids: Sequence[str]) -> dict[str, InstanceExtended]:
    """Return the newest extension of each of these instances, without those that were never extended."""
    found = await log.query(_NEWEST_OF, {"cloud_id": cloud_id, "instance_ids": list(instance_ids)})
    events = [item.event for item in found]
    return {event.instance_id: event for event in events if isinstance(event, InstanceExtended)}


async def decided_on(
    log: LogAccess, cloud_id: int, asked: Sequence[tuple[str, int, int | None]]
) -> dict[tuple[str, int, int | None], Recorded]:
    """Return what was decided on these extensions: instance, lifetime, and the time of a refusal.

    None in place of a time stands for an acceptance.
    """
    found: list[Recorded] = []
    for sql, some in (
        (_ACCEPTED, [one for one in asked if one[2] is None]),
        (_REFUSED, [one for one in asked if one[2] is not None]),
    ):
        if some:
            ids, lifetimes, times = map(list, zip(*some, strict=True))
            of_all = {"cloud_id": cloud_id, "instance_ids": ids, "lifetimes": lifetimes, "times": times}
            found += await log.query(sql, of_all)
    return {_key(item): item for item in found}


def _key(recorded: Recorded) -> tuple[str, int, int | None]:
    event = recorded.event
    assert isinstance(event, InstanceExtended | ExtensionRejected)
    return event.instance_id, event.lifetime_us, event.at_us if isinstance(event, ExtensionRejected) else None
