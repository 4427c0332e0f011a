"""Reads of a cloud's published tables and of the runs that compute them, and requests for runs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from app.domain.errors import LogNewer, RunNotFound, TableNotFound
from app.domain.paging import Page
from app.domain.values import RunCause
from app.forecast.table import QuantileTable
from app.forecasts.rules import Run, TableSummary
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import Tables
from app.forecasts.tables import TableCache, decode_table, is_of
from app.scheduling.store.clouds import Clouds


class TableReads:
    """Reads tables and runs by cloud name. Raises CloudNotFound for an unknown one, and LogUnavailable."""

    def __init__(self, clouds: Clouds, tables: Tables, runs: Runs, cache: TableCache) -> None:
        self._clouds = clouds
        self._tables = tables
        self._runs = runs
        self._cache = cache

    async def tables(self, cloud: str, marker: int | None, limit: int) -> Page[TableSummary]:
        """Return the published tables after the epoch `marker`, newest first, without their curves."""
        found = await self._tables.page(await self._clouds.id_of(cloud), limit + 1, marker)
        return Page(found[:limit], str(found[limit - 1].epoch) if len(found) > limit else None)

    async def newest(self, cloud: str) -> QuantileTable | None:
        """Return the newest quantile table, None before the first. Answers never mentioned a newer one."""
        return await self._cache.load(await self._clouds.id_of(cloud))

    async def table(self, cloud: str, epoch: int | None) -> tuple[TableSummary, QuantileTable]:
        """Return the table of an epoch (None: the newest) with its curves.

        The table held for decisions is not read again.
        """
        cloud_id = await self._clouds.id_of(cloud)
        newest = await self._tables.page(cloud_id, 1)
        if newest and epoch in (None, newest[0].epoch) and (held := self._held(cloud_id, newest[0])):
            return newest[0], held
        stored = await (self._tables.newest(cloud_id) if epoch is None else self._tables.get(cloud_id, epoch))
        if stored is None:
            raise TableNotFound(
                "no table of quotes was published yet" if epoch is None else f"there is no epoch {epoch}"
            )
        return stored, await asyncio.to_thread(decode_table, stored)

    async def of_epoch(self, cloud_id: int, epoch: int) -> tuple[TableSummary, QuantileTable | None] | None:
        """Return the table of an epoch, None if it is gone. Its curves are None if a newer version wrote them.

        The table held for decisions is not read again.
        """
        summary = await self._tables.page(cloud_id, 1, epoch + 1)
        if not summary or summary[0].epoch != epoch:
            return None
        if held := self._held(cloud_id, summary[0]):
            return summary[0], held
        stored = await self._tables.get(cloud_id, epoch)
        with suppress(LogNewer):
            return summary[0], None if stored is None else await asyncio.to_thread(decode_table, stored)
        return summary[0], None

    def _held(self, cloud_id: int, summary: TableSummary) -> QuantileTable | None:
        held = self._cache.newest(cloud_id)
        return held if is_of(held, summary) else None

    async def request_run(self, cloud: str) -> Run:
        """Request a table of the history so far. If a run is already pending, return that one."""
        return await self._runs.request(await self._clouds.id_of(cloud), RunCause.REQUESTED, None)

    async def runs(self, cloud: str, marker: int | None, limit: int) -> Page[Run]:
        """Return the runs after the one with the number `marker`, newest first."""
        found = await self._runs.page(await self._clouds.id_of(cloud), limit + 1, marker)
        return Page(found[:limit], str(found[limit - 1].number) if len(found) > limit else None)

    async def run(self, cloud: str, number: int) -> Run:
        """Return one run."""
        run = await self._runs.get(await self._clouds.id_of(cloud), number)
        if run is None:
            raise RunNotFound(f"there is no run '{number}'")
        return run
