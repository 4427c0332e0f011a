"""The worker's jobs that append notices: of risk, and of evictions that no controller has confirmed in time.

Notices are events of the log. So they have their place among all others, and every feed tells of them. A worker appends
them as any writer does: if another process appended first, they are decided again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from app.admission.decide import decide_overdue
from app.admission.quote import quotes_of_now
from app.admission.risk import Assessed, Crossed, assess_risk, decide_risk, exposed_instances, told_before
from app.admission.sparing import moves_sparing
from app.domain.events import Event, Recorded
from app.engine.cloud import Cloud
from app.notices.newest import NewestTables, append_at_end, apply_in_turns
from app.platform.each import for_each_cloud
from app.platform.telemetry.metrics import NOTICES
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds
from app.scheduling.store.log import LogAccess
from app.scheduling.store.risks import newest_risks

WriteNotices: TypeAlias = Callable[[int], Awaitable[Sequence[Event]]]
"""Writes what is to be told of a cloud, and gives it."""


class NoticeWriter:
    """Appends notices to the logs of all clouds. `now_us` is the server's clock, in microseconds."""

    def __init__(self, clouds: Clouds, states: States, tables: NewestTables, now_us: Callable[[], int]) -> None:
        self._clouds = clouds
        self._states = states
        self._tables = tables
        self._now_us = now_us

    async def report_overdue(self) -> int:
        """Report every eviction whose deadline has passed unconfirmed, once; return how many."""
        return await self._of_all("eviction_overdue", self._report)

    async def assess_risks(self) -> int:
        """Report instances whose risk crossed their cloud's threshold in either direction; return how many."""
        return await self._of_all("eviction_risk", self._assess)

    async def _of_all(self, kind: str, notice: WriteNotices) -> int:
        """Run over all clouds and return how many notices were written.

        The counter exists before the first one: Prometheus sees no rise in a counter that begins at 1.
        """
        names = {cloud_id: name for name, cloud_id in (await self._clouds.list()).items()}

        async def write(cloud_id: int) -> int:
            counter = NOTICES.labels(names[cloud_id], kind)
            written = len(await notice(cloud_id))
            counter.inc(written)
            return written

        return await for_each_cloud(names, write)

    async def _report(self, cloud_id: int) -> Sequence[Event]:
        cloud = await self._states.current(cloud_id)
        if not decide_overdue(cloud, self._present_us(cloud)):
            return []
        return await self._append(cloud_id, decide_overdue)

    async def _assess(self, cloud_id: int) -> Sequence[Event]:
        cloud = await self._states.current(cloud_id)
        threshold, at_us = cloud.policy.risk_threshold, self._present_us(cloud)
        if threshold is None or cloud.youngest_spot() is None:
            return []
        exposed, at_risk, policy = exposed_instances(cloud, at_us), frozenset(cloud.at_risk), cloud.policy
        propose = cloud.proposals_now(at_us)
        table = await self._tables.of(cloud_id)
        if table is None or at_us - table.epoch_us > policy.table_max_age_us:
            return []
        quotes = quotes_of_now(table, cloud, cloud.flavors, at_us)
        changed = await asyncio.to_thread(
            lambda: assess_risk(exposed(), at_risk, policy, quotes(), moves_sparing(propose()))
        )
        return await self._tell(cloud_id, changed, Assessed(threshold, table.epoch)) if changed else []

    async def _tell(self, cloud_id: int, changed: Sequence[Crossed], assessed: Assessed) -> Sequence[Event]:
        """Append what is news over the log's end, which also says what was told before."""

        async def decide(cloud: Cloud, log: LogAccess) -> Sequence[Recorded]:
            told = await newest_risks(log, cloud_id, told_before(cloud, changed))
            return await apply_in_turns(cloud, decide_risk(cloud, changed, assessed, told, self._present_us(cloud)))

        return [item.event for item in await self._states.appender(cloud_id).append_decided(decide)]

    async def _append(self, cloud_id: int, decide: Callable[[Cloud, int], Sequence[Event]]) -> Sequence[Event]:
        """Decide over the log's end and append there."""
        return await append_at_end(self._states, cloud_id, self._present_us, decide)

    def _present_us(self, cloud: Cloud) -> int:
        return cloud.present_us(self._now_us())
