"""Bringing a cloud's state up to its log: the newest snapshot and the events after it."""

from __future__ import annotations

import asyncio
from collections import defaultdict

from app.engine.cloud import Cloud
from app.store.log import EventLog, LogAccess
from app.store.snapshots import Snapshots

_READ_EVENTS = 10_000


async def load_state(cloud_id: int, log: EventLog, snapshots: Snapshots) -> Cloud:
    """The state as of the log's end."""
    cloud = await snapshots.load(cloud_id) or Cloud()
    await catch_up(cloud, cloud_id, log)
    return cloud


async def catch_up(cloud: Cloud, cloud_id: int, log: LogAccess) -> None:
    """Fold what the log holds beyond the state."""
    while tail := await log.tail(cloud_id, cloud.seq, _READ_EVENTS):
        # Whoever catches the same state up at this moment may have folded some of it while this was read.
        cloud.apply_recorded(item for item in tail if item.seq > cloud.seq)
        if len(tail) < _READ_EVENTS:
            return
        await asyncio.sleep(0)


class States:
    """The states that a worker follows, each caught up when it is asked for."""

    def __init__(self, log: EventLog, snapshots: Snapshots) -> None:
        self._log = log
        self._snapshots = snapshots
        self._states: dict[int, Cloud] = {}
        self._reading: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def current(self, cloud_id: int) -> Cloud:
        """The state as of the log's end. To be read at once: it may change when the caller awaits anything."""
        async with self._reading[cloud_id]:
            if cloud_id not in self._states:
                self._states[cloud_id] = await load_state(cloud_id, self._log, self._snapshots)
            await catch_up(self._states[cloud_id], cloud_id, self._log)
            return self._states[cloud_id]
