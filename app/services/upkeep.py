"""What a worker does without being asked: snapshots, and asking for the tables that fall due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from app.admission.recompute import Mark, mark, recompute_reason
from app.domain.errors import LogNewer, LogUnavailable
from app.domain.runs import RunCause
from app.domain.values import Clock, Guarantee, Policy
from app.services.states import States
from app.store.clouds import Clouds
from app.store.runs import Runs
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
            with suppress(LogNewer):  # the store has said so
                taken += await self._take_if_due(cloud_id)
        return taken

    async def _take_if_due(self, cloud_id: int) -> bool:
        cloud = await self._states.current(cloud_id)
        if cloud.seq - (await self._snapshots.newest_seq(cloud_id) or 0) < self._every_events:
            return False
        await self._snapshots.save(cloud_id, cloud)
        SNAPSHOTS.inc()
        return True


class Schedule:
    """Asks for every cloud's tables, at its due times and when much has changed.

    A cloud with an external clock has no schedule: its time stands still between requests, so the request that
    crosses into a new epoch asks for the table (services/tables.py).
    """

    def __init__(self, clouds: Clouds, states: States, tables: Tables, runs: Runs, now_us: Callable[[], int]) -> None:
        self._clouds = clouds
        self._states = states
        self._tables = tables
        self._runs = runs
        self._now_us = now_us
        self._seen_to_us: dict[int, int] = {}
        self._marks: dict[int, tuple[int, Mark]] = {}

    async def request_due(self) -> None:
        """Ask for the tables that are due now. To be called often: what went wrong last time is made up for."""
        await self._for_each_cloud(self._request_due)

    async def request_changed(self) -> None:
        """Ask for new tables where what has happened since the newest one calls for it (admission/recompute.py)."""
        await self._for_each_cloud(self._request_changed)

    async def _for_each_cloud(self, request: Callable[[int], Awaitable[None]]) -> None:
        """One cloud's trouble is not the others': unless the database is lost, it is raised when all had their turn."""
        troubles: list[Exception] = []
        for cloud_id in (await self._clouds.list()).values():
            try:
                await request(cloud_id)
            except LogNewer:  # the store has said so
                continue
            except LogUnavailable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever it was: it is raised below
                troubles.append(error)
        if troubles:
            raise ExceptionGroup("tables could not be asked for", troubles)

    async def _request_due(self, cloud_id: int) -> None:
        """Ask, once in this process, for the due table, unless it is there or was due before the log began."""
        cloud = await self._states.current(cloud_id)
        due_us = cloud.policy.due_epoch_us(self._now_us())
        if not _has_schedule(cloud.policy) or due_us <= cloud.created_us or self._seen_to_us.get(cloud_id) == due_us:
            return
        tables = await self._tables.page(cloud_id, 1)
        is_there = bool(tables) and tables[0].epoch_us >= due_us
        if not is_there and not await self._runs.is_open(cloud_id, due_us):
            await self._runs.request(cloud_id, RunCause.SCHEDULED, due_us)
        self._seen_to_us[cloud_id] = due_us

    async def _request_changed(self, cloud_id: int) -> None:
        """Compare the cloud with what it was when this process first saw its newest table, or last asked for one."""
        tables = await self._tables.page(cloud_id, 1)
        if not tables:
            return
        newest = tables[0].epoch
        cloud = await self._states.current(cloud_id)
        if not _has_schedule(cloud.policy):
            return
        now = mark(cloud, self._now_us())
        epoch, then = self._marks.get(cloud_id, (None, now))
        reason = recompute_reason(then, now, cloud.policy) if epoch == newest else None
        if epoch != newest or reason is not None:
            self._marks[cloud_id] = newest, now
        if reason is not None:
            await self._runs.request(cloud_id, RunCause(reason), None)


def _has_schedule(policy: Policy) -> bool:
    return policy.clock is Clock.SYSTEM and policy.guarantee is not Guarantee.NONE
