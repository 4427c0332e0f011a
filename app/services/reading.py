"""Reads that bypass the model: pages of the log, what became of instances, published tables, runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import Generic, TypeVar

from app.domain.errors import CloudNotFound, InstanceNotFound, MarkerInvalid, RunNotFound, TableNotFound
from app.domain.events import InstanceStarted, Recorded
from app.domain.times import from_datetime
from app.domain.values import Market
from app.engine.cloud import Running
from app.forecast.table import QuantileTable
from app.services.explaining import Explaining
from app.services.explanations import Decided, Explanation, Outcome
from app.services.instances import Instance, InstanceStatus, decision_in, end_in
from app.services.reliability import Stretch, read_reliability
from app.services.tables import decode_table
from app.store.clouds import Clouds
from app.store.database import Database
from app.store.log import EventLog
from app.store.runs import Run, RunCause, Runs, RunStatus
from app.store.tables import Tables, TableSummary

__all__ = [
    "Decided",
    "Explanation",
    "Instance",
    "InstanceStatus",
    "Outcome",
    "Page",
    "Readiness",
    "Reading",
    "Run",
    "RunCause",
    "RunStatus",
    "TableSummary",
]

T = TypeVar("T")

_SCANNED_MAX = 10_000
"""Starts that a page of one status reads at most, so that a rare status does not read the whole log."""
_SCANNED_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some items of a list, and the marker that the next page follows; None on the last."""

    items: Sequence[T]
    marker: str | None


@dataclass(frozen=True, slots=True)
class Readiness:
    """A cloud's newest table: its epoch, and how long ago it was published; None before the first."""

    cloud: str
    epoch: int | None
    computed_at: datetime | None
    age_s: float | None


class Reading:
    """See the module's docstring. Methods raise CloudNotFound for an unknown name, LogUnavailable as the store does.

    `now` is the server's clock.
    """

    def __init__(
        self,
        database: Database,
        clouds: Clouds,
        log: EventLog,
        tables: Tables,
        runs: Runs,
        now: Callable[[], datetime],
    ) -> None:
        self._database = database
        self._clouds = clouds
        self._log = log
        self._tables = tables
        self._runs = runs
        self._now = now
        self._explaining = Explaining(log, tables)

    async def events(self, cloud: str, after_seq: int, limit: int) -> Page[Recorded]:
        """The log's next events after a seq."""
        cloud_id = await self._id(cloud)
        found = await self._log.tail(cloud_id, after_seq, limit + 1)
        return Page(found[:limit], str(found[limit - 1].seq) if len(found) > limit else None)

    async def instance(self, cloud: str, instance_id: str) -> Instance:
        """What became of an instance."""
        cloud_id = await self._id(cloud)
        starts = await self._log.starts(cloud_id, [instance_id])
        if instance_id not in starts:
            raise InstanceNotFound(f"there is no instance {instance_id!r}")
        (instance,) = await self._with_ends(cloud_id, [starts[instance_id]])
        return instance

    async def instances(
        self, cloud: str, marker: str | None, limit: int, market: Market | None, status: InstanceStatus | None
    ) -> Page[Instance]:
        """Instances in the order of their starts after the one named `marker`.

        Where a status is asked for, the page may end before it is full; its marker then says how far it looked.
        """
        cloud_id = await self._id(cloud)
        after_seq = await self._seq_of_start(cloud_id, marker)
        found: list[Instance] = []
        read_at_once = limit + 1 if status is None else max(limit + 1, _SCANNED_AT_ONCE)
        for _ in range(max(1, _SCANNED_MAX // read_at_once)):
            starts = await self._log.started_page(cloud_id, after_seq, read_at_once, market)
            for instance in await self._with_ends(cloud_id, starts):
                if len(found) == limit:
                    return Page(found, found[-1].decision.instance_id)
                if status in (None, instance.status):
                    found.append(instance)
            if len(starts) < read_at_once:
                return Page(found, None)
            after_seq = starts[-1].seq
        return Page(found, decision_in(starts[-1]).instance_id)

    async def running(
        self, cloud: str, running: Iterable[Running], marker: str | None, limit: int, market: Market | None
    ) -> Page[Instance]:
        """Those of the running instances that were started after the one named `marker`; a longer log costs no more."""
        cloud_id = await self._id(cloud)
        after_seq = await self._seq_of_start(cloud_id, marker)
        asked = (one for one in running if one.seq > after_seq and market in (None, one.market))
        ids = [one.instance_id for one in nsmallest(limit + 1, asked, key=lambda one: one.seq)]
        starts = await self._log.starts(cloud_id, ids[:limit])
        found = await self._with_ends(cloud_id, [starts[name] for name in ids[:limit]])
        still = [instance for instance in found if instance.status is InstanceStatus.RUNNING]
        return Page(still, ids[limit - 1] if len(ids) > limit else None)

    async def explanation(self, cloud: str, instance_id: str) -> Explanation:
        """Why an instance was accepted or rejected, and how it ended; a longer log costs no more."""
        instance = await self.instance(cloud, instance_id)
        return await self._explaining.explain(await self._id(cloud), instance, self._now())

    async def decisions(
        self,
        cloud: str,
        before_seq: int | None,
        limit: int,
        outcome: Outcome | None = None,
        market: Market | None = None,
    ) -> Page[Decided]:
        """What was decided on instances before a seq (None: up to now), newest first, with reasons.

        Where an outcome or a market is asked for, the page may end before it is full; its marker, the next
        `before_seq`, then says how far it looked.
        """
        found, more = await self._explaining.decisions(await self._id(cloud), before_seq, limit, outcome, market)
        return Page(found, None if more is None else str(more))

    async def reliability(self, cloud: str, after_seq: int | None, now_us: int | None) -> Stretch:
        """How the promises given in a stretch of the log were kept by `now_us`, or by now; see `read_reliability`."""
        at_us = from_datetime(self._now()) if now_us is None else now_us
        return await read_reliability(self._log, await self._id(cloud), after_seq, at_us)

    async def tables(self, cloud: str, marker: int | None, limit: int) -> Page[TableSummary]:
        """Published tables, newest first, after the epoch `marker`; without their curves."""
        found = await self._tables.page(await self._id(cloud), limit + 1, marker)
        return Page(found[:limit], str(found[limit - 1].epoch) if len(found) > limit else None)

    async def table(self, cloud: str, epoch: int | None) -> tuple[TableSummary, QuantileTable]:
        """The table of an epoch, None for the newest, with its curves."""
        cloud_id = await self._id(cloud)
        stored = await (self._tables.newest(cloud_id) if epoch is None else self._tables.get(cloud_id, epoch))
        if stored is None:
            raise TableNotFound(
                "no quantile table was published yet" if epoch is None else f"there is no epoch {epoch}"
            )
        return stored, await asyncio.to_thread(decode_table, stored)

    async def request_run(self, cloud: str) -> Run:
        """Ask the workers for a table of the history so far; the run that waits already, if one does."""
        return await self._runs.request(await self._id(cloud), RunCause.REQUESTED, None)

    async def runs(self, cloud: str, marker: int | None, limit: int) -> Page[Run]:
        """Runs, newest first, after the one with the id `marker`."""
        found = await self._runs.page(await self._id(cloud), limit + 1, marker)
        return Page(found[:limit], str(found[limit - 1].id) if len(found) > limit else None)

    async def run(self, cloud: str, run_id: int) -> Run:
        """One run."""
        run = await self._runs.get(await self._id(cloud), run_id)
        if run is None:
            raise RunNotFound(f"there is no run {run_id}")
        return run

    async def check_ready(self) -> None:
        """LogUnavailable where the database does not answer, LogNewer where this process is too old for a log in it."""
        await self._database.execute("SELECT 1")
        await self._log.check_all_readable()

    async def readiness(self) -> list[Readiness]:
        """The newest table of every cloud."""
        return [await self._readiness(name, cloud_id) for name, cloud_id in (await self._clouds.list()).items()]

    async def _readiness(self, name: str, cloud_id: int) -> Readiness:
        newest = await self._tables.page(cloud_id, 1)
        if not newest:
            return Readiness(name, None, None, None)
        computed_at = newest[0].computed_at
        return Readiness(name, newest[0].epoch, computed_at, (self._now() - computed_at).total_seconds())

    async def _id(self, cloud: str) -> int:
        cloud_id = await self._clouds.find(cloud)
        if cloud_id is None:
            raise CloudNotFound(f"there is no cloud {cloud!r}")
        return cloud_id

    async def _seq_of_start(self, cloud_id: int, marker: str | None) -> int:
        if marker is None:
            return 0
        starts = await self._log.starts(cloud_id, [marker])
        if marker not in starts:
            raise MarkerInvalid(f"{marker!r} is not in this list")
        return starts[marker].seq

    async def _with_ends(self, cloud_id: int, starts: Sequence[Recorded]) -> list[Instance]:
        decisions = [(decision_in(recorded), recorded.seq) for recorded in starts]
        running = [decision.instance_id for decision, _ in decisions if isinstance(decision, InstanceStarted)]
        ends = await self._log.ends(cloud_id, running) if running else {}
        return [Instance(decision, seq, end_in(ends.get(decision.instance_id))) for decision, seq in decisions]
