"""Reads of the notices of risk. Each goes by an index, so that a longer log costs no more."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.events import EvictionRisk
from app.domain.events.formats import is_whole_in
from app.domain.events.registry import NOTICES
from app.domain.values import ToldRisk
from app.scheduling.store.log import LogAccess

_NEWEST_OF = f"""
SELECT found.* FROM unnest(%(instance_ids)s::text[]) AS wanted (id) CROSS JOIN LATERAL (
    SELECT seq, kind, version, data::text FROM event WHERE cloud_id = %(cloud_id)s AND instance_id = wanted.id
    AND kind IN {NOTICES} AND kind = 'eviction_risk' ORDER BY seq DESC LIMIT 1
) AS found
"""


async def newest_risks(log: LogAccess, cloud_id: int, instance_ids: Sequence[str]) -> dict[str, ToldRisk]:
    """Return what was last told of each of these instances at risk, without those of which nothing was.

    Nothing is returned until the log format in force can hold moves.
    """
    if not instance_ids or not is_whole_in(EvictionRisk, log.log_format):
        return {}
    found = await log.query(_NEWEST_OF, {"cloud_id": cloud_id, "instance_ids": list(instance_ids)})
    events = [item.event for item in found]
    return {one.instance_id: ToldRisk(one.at_us, one.moves) for one in events if isinstance(one, EvictionRisk)}
