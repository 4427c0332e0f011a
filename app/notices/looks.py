"""The worker's job that looks at instances that want a longer lifetime than they were promised (engine.cloud.wants).

Any worker may do it. Who is due follows from the folded state, and of two workers that decide on the same instance the
log lets one write; the other finds a new promise and leaves it. A worker that is killed leaves nothing to repair: the
next one looks at all that is due. A look that gains nothing writes nothing, so what it is known by is kept in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from app.admission.longest import decide_look
from app.domain.events import Event, InstanceExtended, PromiseEnding
from app.domain.values import Clock
from app.engine.cloud import Cloud, Want, looks_due
from app.forecast.table import QuantileTable
from app.notices.newest import NewestTables, append_at_end
from app.platform.each import for_each_cloud
from app.platform.telemetry.metrics import EXTENDED, NOTICES
from app.scheduling.appending import States
from app.scheduling.store.clouds import Clouds

ROUND_S = 2.0
"""The time that one round may take for a cloud. What is left over comes first in the next one, if it ends sooner."""
AT_ONCE = 32
"""The number of instances that are decided on in one transaction, so that requests need not wait for long."""


class Looks:
    """Takes the looks of all clouds on the server's clock. `now_us` is that clock, in microseconds.

    On an external clock the requests bring the times, and the looks with them (admission.looks).
    """

    def __init__(self, clouds: Clouds, states: States, tables: NewestTables, now_us: Callable[[], int]) -> None:
        self._clouds, self._states, self._tables, self._now_us = clouds, states, tables, now_us
        self._looked_us: dict[int, int] = {}
        self._left: dict[int, dict[str, Want]] = {}

    async def extend_wanted(self) -> int:
        """Take the looks that are due, for some seconds at most; return how many events came of them."""
        names = {cloud_id: name for name, cloud_id in (await self._clouds.list()).items()}

        async def look(cloud_id: int) -> int:
            return await self._look(cloud_id, names[cloud_id])

        return await for_each_cloud(names, look)

    async def _look(self, cloud_id: int, name: str) -> int:
        due = await self._due(cloud_id)
        if not due:
            return 0
        table, ends_s, written = await self._tables.of(cloud_id), monotonic() + ROUND_S, 0
        left = self._left[cloud_id]
        for at in range(0, len(due), AT_ONCE):
            if monotonic() >= ends_s:
                break
            some = due[at : at + AT_ONCE]
            events = await append_at_end(self._states, cloud_id, self._present_us, _decider(some, table))
            for want in some:
                left.pop(want.instance_id, None)
            _count(name, events)
            written += len(events)
        return written

    async def _due(self, cloud_id: int) -> Sequence[Want]:
        """Return those who are due, with those that were left over, the soonest end first."""
        cloud = await self._states.current(cloud_id)
        left = self._left.setdefault(cloud_id, {})
        if not cloud.wants or cloud.policy.clock is Clock.EXTERNAL:
            left.clear()
            return []
        now_us, wants, grace_us = self._present_us(cloud), [*cloud.wants.values()], cloud.policy.grace_us
        after_us, self._looked_us[cloud_id] = self._looked_us.get(cloud_id, 0), now_us

        def found() -> list[Want]:
            left.update((want.instance_id, want) for _, want in looks_due(wants, grace_us, after_us, now_us))
            return sorted(left.values(), key=lambda want: (want.deadline_us, want.instance_id))

        return await asyncio.to_thread(found)

    def _present_us(self, cloud: Cloud) -> int:
        return cloud.present_us(self._now_us())


def _decider(due: Sequence[Want], table: QuantileTable | None) -> Callable[[Cloud, int], Iterator[Event]]:
    """Return a function that yields what comes of looking at these, if nobody else was faster."""

    def decide(cloud: Cloud, at_us: int) -> Iterator[Event]:
        quotes = None if table is None or table.seq > cloud.seq else table
        for want in due:
            event = decide_look(cloud, want, at_us, quotes) if cloud.wants.get(want.instance_id) == want else None
            if event is not None:
                yield event

    return decide


def _count(name: str, events: Sequence[Event]) -> None:
    """Count the events. The counters exist before the first of them, for Prometheus sees no rise of one that begins."""
    for kind in (InstanceExtended, PromiseEnding):
        found = [event for event in events if isinstance(event, kind)]
        counter = NOTICES.labels(name, "promise_ending") if kind is PromiseEnding else EXTENDED.labels(name)
        counter.inc(len(found))
