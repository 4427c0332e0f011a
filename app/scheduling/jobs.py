"""Snapshots of clouds, taken by the worker."""

from __future__ import annotations

from app.platform.each import for_each_cloud
from app.platform.telemetry.metrics import SNAPSHOTS
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.snapshots import Snapshots


class Snapshotting:
    """Takes a snapshot of every cloud whose log has grown enough since the last one."""

    def __init__(self, clouds: Clouds, states: States, snapshots: Snapshots, every_events: int) -> None:
        self._clouds = clouds
        self._states = states
        self._snapshots = snapshots
        self._every_events = every_events

    async def take_due(self) -> int:
        """Take the snapshots that are due, and return their number."""
        return await for_each_cloud((await self._clouds.list()).values(), self._take_if_due)

    async def _take_if_due(self, cloud_id: int) -> int:
        newest_seq = await self._snapshots.newest_seq(cloud_id) or 0
        cloud = await self._states.current(cloud_id)
        if cloud.seq - newest_seq < self._every_events:
            return 0
        await self._snapshots.save(cloud_id, cloud)
        SNAPSHOTS.inc()
        return 1
