"""The newest published tables in memory, replaced as a whole when a new one is announced."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncGenerator
from contextlib import aclosing
from time import monotonic

from app.domain.errors import LogNewer, LogUnavailable
from app.domain.values import RunCause
from app.forecast.table import QuantileTable
from app.forecasts.rules import TableSummary
from app.forecasts.store.runs import Runs
from app.forecasts.store.tables import StoredTable, Tables
from app.platform.asked import CommonTurns
from app.platform.database.signals import Resync, Signal, TablePublished

logger = logging.getLogger(__name__)

LOOK_S = 3.0
"""The pause between two looks at the newest tables of all clouds."""
_POLL_S = 1.0
"""The time for which a waiting request relies on the announcement alone, and the pause between two tries."""


def decode_table(stored: StoredTable) -> QuantileTable:
    """Return the stored table. Decoding takes long if there are many samples."""
    return QuantileTable.from_bytes(stored.data, epoch=stored.epoch, epoch_us=stored.epoch_us, seq=stored.seq)


class TableCache:
    """The newest table of each cloud. Requests that need a table of a later epoch ask for it and wait here."""

    def __init__(self, tables: Tables, runs: Runs, wait_s: float) -> None:
        self._tables = tables
        self._runs = runs
        self._wait_s = wait_s
        self._newest: dict[int, QuantileTable | None] = {}
        self._announced: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)
        self._given_up_us: dict[int, int] = {}
        self._loading: defaultdict[int, CommonTurns] = defaultdict(CommonTurns)

    def newest(self, cloud_id: int) -> QuantileTable | None:
        """Return the table to decide with; None before the first. Another process may have a newer one."""
        return self._newest.get(cloud_id)

    async def load(self, cloud_id: int) -> QuantileTable | None:
        """Load the cloud's newest published table and return it. It is decoded only if it differs from the one held."""
        async with self._loading[cloud_id].taken():
            held = self._newest.setdefault(cloud_id, None)
            newest = await self._tables.page(cloud_id, 1)
            if not newest or not is_of(held, newest[0]):
                stored = await self._tables.newest(cloud_id)
                self._newest[cloud_id] = None if stored is None else await asyncio.to_thread(decode_table, stored)
                self._announced[cloud_id].set()
            return self._newest[cloud_id]

    async def wait_for(self, cloud_id: int, due_us: int, since_s: float) -> None:
        """Request the table of that due time and wait until it is published, or until the time allowed is over.

        That counts from `since_s`, of the monotonic clock.
        """
        if self._given_up_us.get(cloud_id) == due_us:
            return
        await self._runs.request(cloud_id, RunCause.EXTERNAL_CLOCK, due_us)
        deadline = since_s + self._wait_s
        while not self._is_there(cloud_id, due_us):
            if monotonic() > deadline:
                self._given_up_us[cloud_id] = due_us
                logger.warning(
                    "no table came in time: no worker is running, or all have much to do",
                    extra={"cloud_id": cloud_id, "waited_s": self._wait_s},
                )
                return
            await self._wait_for_announcement(cloud_id)
            await self.load(cloud_id)

    async def follow(self, notices: AsyncGenerator[Signal]) -> None:
        """Load announced tables until cancelled; after a gap in the announcements, reload everything held."""
        async with aclosing(notices):
            async for notice in notices:
                if isinstance(notice, TablePublished) and notice.cloud_id in self._newest:
                    await self._load_at_last(notice.cloud_id)
                elif isinstance(notice, Resync):
                    for cloud_id in [*self._newest]:
                        await self._load_at_last(cloud_id)

    async def keep_looking(self) -> None:
        """Look every few seconds for tables that were not announced, or not heard of, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look()
            except LogUnavailable as error:
                logger.debug("newer tables could not be looked for: %s", error)

    async def _look(self) -> None:
        newest = await self._tables.newest_of([*self._newest])
        for cloud_id, held in [*self._newest.items()]:
            found = newest.get(cloud_id)
            if held is not None if found is None else not is_of(held, found):
                await self._load_at_last(cloud_id)

    async def _load_at_last(self, cloud_id: int) -> None:
        """Load, retrying while the database is out of reach, because a missed table would not be announced again."""
        while True:
            try:
                await self.load(cloud_id)
            except LogUnavailable as error:
                logger.warning("the newest table could not be read", extra={"cloud_id": cloud_id, "error": str(error)})
                await asyncio.sleep(_POLL_S)
            except LogNewer as error:
                logger.warning("the newest table is left alone", extra={"cloud_id": cloud_id, "error": str(error)})
                return
            else:
                return

    def _is_there(self, cloud_id: int, due_us: int) -> bool:
        held = self._newest.get(cloud_id)
        return held is not None and held.epoch_us >= due_us

    async def _wait_for_announcement(self, cloud_id: int) -> None:
        announced = self._announced[cloud_id]
        announced.clear()
        try:
            await asyncio.wait_for(announced.wait(), _POLL_S)
        except TimeoutError:
            return


def is_of(held: QuantileTable | None, summary: TableSummary) -> bool:
    """Return True if the table is the published one. Its epoch is not enough if the database was put back."""
    return held is not None and (held.epoch, held.epoch_us, held.seq) == (summary.epoch, summary.epoch_us, summary.seq)
