"""The record of promises kept by a running cloud, read from a bounded stretch of its log."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from app.domain.errors import LogPutBack
from app.domain.events import InstanceStarted, Recorded
from app.judging.reliability import Fate, Reliability, fate_of, measure_reliability
from app.scheduling.rules.instances import end_in, never_ran
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.extensions import newest_extensions
from app.scheduling.store.log import EventLog

LONGEST_STRETCH = 50_000
"""The number of events in a stretch. Only its admitted spot starts, and the ends of those instances, are read."""
_READ_EVENTS = 2_000
"""The number of events in one statement. Decoding its result blocks other work for a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The reliability of the instances started by the events from `first_seq` to `last_seq`, as known at `now_us`."""

    first_seq: int
    last_seq: int
    now_us: int
    reliability: Reliability


class Reliabilities:
    """Reads the record of promises by cloud name. Raises CloudNotFound for an unknown one."""

    def __init__(self, clouds: Clouds, log: EventLog) -> None:
        self._clouds = clouds
        self._log = log

    async def read(self, cloud: str, after_seq: int | None, now_us: int) -> Stretch:
        """Return the record of promises given in a stretch of the log, as of `now_us` (`read_reliability`)."""
        return await read_reliability(self._log, await self._clouds.id_of(cloud), after_seq, now_us)


async def read_reliability(
    log: EventLog, cloud_id: int, after_seq: int | None, now_us: int, *, longest: int = LONGEST_STRETCH
) -> Stretch:
    """Return the outcomes of spot starts admitted in the stretch after `after_seq`, or in the newest one.

    Raises LogPutBack if the log ends before `after_seq`.
    """
    newest_seq = await log.last_seq(cloud_id)
    if after_seq is not None and after_seq > newest_seq:
        raise LogPutBack.beyond(after_seq, newest_seq)
    first = max(0, newest_seq - longest) if after_seq is None else after_seq
    last = min(newest_seq, first + longest)
    fates: list[Fate] = []
    seq = first
    while seq < last:
        up_to = min(last, seq + _READ_EVENTS)
        starts = await log.admitted_spot(cloud_id, seq, up_to)
        fates += await _fates(log, cloud_id, starts, now_us)
        seq = starts[-1].seq if starts.is_cut else up_to
    return Stretch(first + 1, last, now_us, await asyncio.to_thread(measure_reliability, fates))


async def _fates(log: EventLog, cloud_id: int, recorded: list[Recorded], now_us: int) -> list[Fate]:
    starts = [item.event for item in recorded if isinstance(item.event, InstanceStarted)]
    if not starts:
        return []
    names = [start.instance_id for start in starts]
    ends, extended = await log.ends(cloud_id, names), await newest_extensions(log, cloud_id, names)
    lifetimes = {name: extension.lifetime_us for name, extension in extended.items()}
    return [
        fate_of(start, end, now_us, lifetimes.get(start.instance_id))
        for start in starts
        if not never_ran(end := end_in(ends.get(start.instance_id)))
    ]
