"""The end of each log as this process knows it, and waiting until a log grows.

Three sources tell of growth: this process's own commits, at once; signals of other processes, within milliseconds; and
a query every few seconds, in case a process died before it sent its signals. A wake-up is only a hint; the waiter must
read the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from app.domain.errors import LogNewer, LogUnavailable
from app.platform.background import background
from app.platform.database.agreement import check_agreement
from app.platform.database.database import Database
from app.platform.database.signals import (
    LOGS,
    LogGrew,
    Resync,
    TurnsWanted,
    announce_growth,
    ask_for_turns,
    listen,
)
from app.scheduling.store.log import NO_EVENT, EventLog, EventMark

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeadPauses:
    """The pauses of signals, in seconds.

    `gather_s`: signals collected over this time go out together, so a busy log sends twenty a second instead of one for
    each batch. `look_s`: between two looks at the ends of the logs.
    """

    gather_s: float = 0.05
    look_s: float = 5.0


@dataclass(slots=True)
class _LogHead:
    """The last known event of a log that this process follows."""

    seq: int
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class _Writer(NamedTuple):
    """Calls to a writer of a log: with the seq of a signal about it, and when another writer wants turns."""

    heard: Callable[[int], None]
    take_turns: Callable[[], None]


class LogHeads:
    """The known ends of all logs, and those who wait for them to move."""

    def __init__(self, database: Database, log: EventLog, pauses: HeadPauses | None = None) -> None:
        self._database = database
        self._log = log
        self._pauses = pauses or HeadPauses()
        self._heads: dict[int, _LogHead] = {}
        self._untold: dict[int, int] = {}
        self._to_tell = asyncio.Event()
        self._looked: dict[int, EventMark] = {}
        self._times_forgotten: Counter[int] = Counter()
        self._writers: dict[int, _Writer] = {}

    def call_writer(self, cloud_id: int, heard: Callable[[int], None], take_turns: Callable[[], None]) -> None:
        """Call this process's writer of a log with the seq of each signal about it, and when another one wants turns.

        The newest writer is called.
        """
        self._writers[cloud_id] = _Writer(heard, take_turns)

    async def want_turns(self, cloud_id: int) -> None:
        """Ask the other writers of a log to take turns; without an answer all is as before."""
        with suppress(LogUnavailable):
            await ask_for_turns(self._database, cloud_id)

    def tell(self, cloud_id: int, seq: int) -> None:
        """Note that this process has committed events up to `seq`; other processes are told soon."""
        self._heard(cloud_id, seq)
        self._untold[cloud_id] = seq
        self._to_tell.set()

    async def reach(self, cloud_id: int) -> int:
        """Return the last known seq. The first call for a log reads it there."""
        if cloud_id not in self._heads:
            newest, _ = await self._log.look(cloud_id, NO_EVENT)
            self._looked.setdefault(cloud_id, newest)
            self._heads.setdefault(cloud_id, _LogHead(newest.seq))
        return self._heads[cloud_id].seq

    async def look(self, cloud_id: int) -> int:
        """Return the newest seq, looked up now. If the log is not the one looked at last, forget it."""
        await self._look_at(cloud_id)
        return await self.reach(cloud_id)

    async def wait_beyond(self, cloud_id: int, seq: int, timeout_s: float) -> bool:
        """Wait until the log reaches beyond `seq`, or is found to be another one; False if neither came in time."""
        times = self.times_forgotten(cloud_id)
        try:
            async with asyncio.timeout(timeout_s):
                while await self.reach(cloud_id) <= seq and self.times_forgotten(cloud_id) == times:
                    await self._heads[cloud_id].moved.wait()
        except TimeoutError:
            return False
        return True

    def forget(self, cloud_id: int) -> None:
        """Forget a log that was put back to an earlier end, and wake all who wait for it."""
        head = self._heads.pop(cloud_id, None)
        self._untold.pop(cloud_id, None)
        self._looked.pop(cloud_id, None)
        self._times_forgotten[cloud_id] += 1
        if head is not None:
            head.moved.set()

    def times_forgotten(self, cloud_id: int) -> int:
        """Return how often the log was found to be another one. Copies made before the last time are outdated."""
        return self._times_forgotten[cloud_id]

    @asynccontextmanager
    async def kept_up(self) -> AsyncIterator[None]:
        """Exchange signals of commits with other processes until the block ends."""
        async with background(log_signals=self._hear, log_growth=self._tell_others, log_looks=self._look):
            yield

    def _heard(self, cloud_id: int, seq: int) -> None:
        head = self._heads.get(cloud_id)
        if head is not None and seq > head.seq:
            head.seq = seq
            head.moved.set()
            head.moved = asyncio.Event()

    async def _look_at(self, cloud_id: int) -> None:
        head = self._heads.get(cloud_id, _LogHead(0)).seq
        newest, is_same = await self._log.look(cloud_id, self._looked.get(cloud_id, NO_EVENT))
        if not is_same or newest.seq < head:
            self.forget(cloud_id)
        self._looked[cloud_id] = newest
        self._heard(cloud_id, newest.seq)

    async def _hear(self) -> None:
        async with aclosing(listen(self._database, LOGS)) as notices:
            async for notice in notices:
                if isinstance(notice, LogGrew):
                    self._heard(notice.cloud_id, notice.seq)
                    if notice.cloud_id in self._writers:
                        self._writers[notice.cloud_id].heard(notice.seq)
                elif isinstance(notice, TurnsWanted) and notice.cloud_id in self._writers:
                    self._writers[notice.cloud_id].take_turns()
                elif isinstance(notice, Resync):
                    await self._look_once()

    async def _tell_others(self) -> None:
        while True:
            await self._to_tell.wait()
            self._to_tell.clear()
            seqs, self._untold = self._untold, {}
            try:
                await announce_growth(self._database, seqs)
            except LogUnavailable as error:  # followers of these logs query them by themselves
                logger.debug("growth was not announced: %s", error)
            await asyncio.sleep(self._pauses.gather_s)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(self._pauses.look_s)
            with suppress(LogNewer, LogUnavailable):  # readers and writers get the error
                await check_agreement(self._database)
            await self._look_once()

    async def _look_once(self) -> None:
        for cloud_id in list(self._heads):
            try:
                await self._look_at(cloud_id)
            except LogUnavailable as error:
                logger.debug("a log's end could not be read: %s", error)
                return
