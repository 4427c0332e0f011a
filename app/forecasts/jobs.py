"""Requests for due tables, made by the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.admission.recompute import Mark, mark, recompute_reason
from app.domain.times import HOUR_US, SECOND_US, from_datetime
from app.domain.values import Clock, Guarantee, Policy, RunCause
from app.forecasts.rules import TableSummary
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.platform.each import for_each_cloud
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds

_GIVEN_UP_FOR_US = HOUR_US
"""A due table whose run was given up is requested again after this time."""


class Schedule:
    """Requests every cloud's tables, at their due times and after large changes.

    A cloud with an external clock has no schedule, because its time stands still between requests. The request that
    enters a new epoch asks for the table (forecasts/tables.py).
    """

    def __init__(self, clouds: Clouds, states: States, tables: Tables, runs: Runs, now_us: Callable[[], int]) -> None:
        self._clouds = clouds
        self._states = states
        self._tables = tables
        self._runs = runs
        self._now_us = now_us
        self._seen_to: dict[int, tuple[int, int]] = {}
        """For each cloud the due time that was seen to last, and when that was."""
        self._newest: dict[int, TableSummary] = {}
        self._marks: dict[int, tuple[int, Mark]] = {}

    async def request_due(self) -> int:
        """Request the tables due now. Call it often: it makes up for earlier failures."""
        return await for_each_cloud((await self._clouds.list()).values(), self._request_due)

    async def request_changed(self) -> int:
        """Request new tables for clouds that have changed enough since the newest one (admission/recompute.py)."""
        return await for_each_cloud((await self._clouds.list()).values(), self._request_changed)

    async def _request_due(self, cloud_id: int) -> int:
        """Request the due table once an hour in this process, unless it exists or was due before the log began.

        A run that takes longer than the interval is not followed by the next one at once.
        """
        cloud = await self._states.current(cloud_id)
        now_us = self._now_us()
        due_us = cloud.policy.due_epoch_us(now_us)
        if not _has_schedule(cloud.policy) or due_us <= cloud.created_us or self._is_seen_to(cloud_id, due_us, now_us):
            return 0
        tables = await self._tables.page(cloud_id, 1)
        self._see(cloud_id, tables)
        is_there = bool(tables) and tables[0].epoch_us >= due_us
        if not is_there and (_rests(tables, cloud.policy, now_us) or await self._runs.is_busy(cloud_id)):
            return 0
        is_needed = not is_there and not await self._runs.is_open(cloud_id, due_us)
        if is_needed:
            await self._runs.request(cloud_id, RunCause.SCHEDULED, due_us)
        self._seen_to[cloud_id] = due_us, now_us
        return int(is_needed)

    def _is_seen_to(self, cloud_id: int, due_us: int, now_us: int) -> bool:
        seen_to_us, at_us = self._seen_to.get(cloud_id, (None, 0))
        return seen_to_us == due_us and now_us - at_us < _GIVEN_UP_FOR_US

    async def _request_changed(self, cloud_id: int) -> int:
        """Compare the cloud with its state when this process first saw its newest table, or last requested one."""
        tables = await self._tables.page(cloud_id, 1)
        self._see(cloud_id, tables)
        if not tables:
            return 0
        newest = tables[0].epoch
        cloud = await self._states.current(cloud_id)
        if tables[0].seq > cloud.seq and await self._tables.remove_ahead(cloud_id):
            return 0  # the next look finds it gone
        if not _has_schedule(cloud.policy):
            return 0
        now = mark(cloud, cloud.present_us(self._now_us()))
        epoch, then = self._marks.get(cloud_id, (None, now))
        reason = recompute_reason(then, now, cloud.policy) if epoch == newest else None
        if epoch != newest or reason is not None:
            self._marks[cloud_id] = newest, now
        if reason is None:
            return 0
        await self._runs.request(cloud_id, reason, None)
        return 1

    def _see(self, cloud_id: int, tables: Sequence[TableSummary]) -> None:
        """Note the newest table. If the one seen before is gone, what was due may be requested once more.

        It goes where a backup was put back, and where a worker removed it because its log was.
        """
        before, newest = self._newest.pop(cloud_id, None), tables[0] if tables else None
        if newest is not None:
            self._newest[cloud_id] = newest
        if before is not None and (newest is None or newest.epoch <= before.epoch) and newest != before:
            self._seen_to.pop(cloud_id, None)


def _has_schedule(policy: Policy) -> bool:
    return policy.clock is Clock.SYSTEM and policy.guarantee is not Guarantee.NONE


def _rests(tables: Sequence[TableSummary], policy: Policy, now_us: int) -> bool:
    """Return True if the newest table took longer than the interval, and less time has passed since than it took."""
    wall_us = int(tables[0].wall_s * SECOND_US) if tables else 0
    return wall_us > policy.recompute_every_us and now_us < from_datetime(tables[0].computed_at) + wall_us
