"""What a worker does without being asked: snapshots, and asking for the tables that fall due."""

from __future__ import annotations

from collections.abc import Callable

from app.admission.recompute import Mark, mark, recompute_reason
from app.domain.values import Clock, Guarantee
from app.services.states import States
from app.store.clouds import Clouds
from app.store.runs import RunCause, Runs
from app.store.snapshots import Snapshots
from app.store.tables import Tables
from app.telemetry.metrics import SNAPSHOTS


class Snapshotting:
    """Takes a snapshot of every cloud whose log has grown enough since its last one."""

    def __init__(self, clouds: Clouds, states: States, snapshots: Snapshots, every_events: int) -> None:
        self._clouds = clouds
        self._states = states
        self._snapshots = snapshots
        self._every_events = every_events

    async def take_due(self) -> int:
        """How many were taken."""
        taken = 0
        for cloud_id in (await self._clouds.list()).values():
            cloud = await self._states.current(cloud_id)
            if cloud.seq - (await self._snapshots.newest_seq(cloud_id) or 0) >= self._every_events:
                await self._snapshots.save(cloud_id, cloud)
                SNAPSHOTS.inc()
                taken += 1
        return taken


class Schedule:
    """Which clouds get a new table every so often, and asking for it.

    A cloud with an external clock has no schedule: its time stands still between requests, so the request that
    crosses into a new epoch asks for the table (services/tables.py).
    """

    def __init__(self, clouds: Clouds, states: States, tables: Tables, runs: Runs, now_us: Callable[[], int]) -> None:
        self._clouds = clouds
        self._states = states
        self._tables = tables
        self._runs = runs
        self._now_us = now_us
        self._marks: dict[int, tuple[int, Mark]] = {}

    async def intervals_us(self) -> dict[int, int]:
        """The recompute interval of every cloud that has a schedule."""
        clouds = (await self._clouds.list()).values()
        policies = {cloud_id: (await self._states.current(cloud_id)).policy for cloud_id in clouds}
        return {
            cloud_id: policy.recompute_every_us
            for cloud_id, policy in policies.items()
            if policy.clock is Clock.SYSTEM and policy.guarantee is not Guarantee.NONE
        }

    async def request_due(self, cloud_id: int) -> None:
        """Ask for the table that is due now, unless it is there or was due before the log began."""
        cloud = await self._states.current(cloud_id)
        due_us = cloud.policy.due_epoch_us(self._now_us())
        newest = await self._tables.newest(cloud_id)
        if due_us > cloud.created_us and (newest is None or newest.epoch_us < due_us):
            await self._runs.request(cloud_id, RunCause.SCHEDULED, due_us)

    async def request_changed(self) -> None:
        """Ask for new tables where what has happened since the newest one calls for it (admission/recompute.py)."""
        for cloud_id in await self.intervals_us():
            await self._request_changed(cloud_id)

    async def _request_changed(self, cloud_id: int) -> None:
        """Compare the cloud with what it was when this process first saw its newest table, or last asked for one."""
        tables = await self._tables.page(cloud_id, 1)
        if not tables:
            return
        newest = tables[0].epoch
        cloud = await self._states.current(cloud_id)
        now = mark(cloud, self._now_us())
        epoch, then = self._marks.get(cloud_id, (None, now))
        reason = recompute_reason(then, now, cloud.policy) if epoch == newest else None
        if epoch != newest or reason is not None:
            self._marks[cloud_id] = newest, now
        if reason is not None:
            await self._runs.request(cloud_id, RunCause(reason), None)
