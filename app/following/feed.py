"""Follows a log live: every event once, in order, for many followers at the price of one.

A follower pulls at its own pace, and nothing is queued for it. The newest events of a followed log are read and
rendered once, and a bounded number of them is kept. A follower that is farther behind reads the log in pages by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from time import monotonic

from app.domain.errors import LogBroken, LogPutBack, TooManyStreams
from app.domain.events import Recorded
from app.platform.asked import CommonTurns
from app.platform.telemetry.metrics import STREAMS
from app.platform.turns import Turns
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.conflicts import PredecessorMissing
from app.scheduling.store.log import EventLog, EventMark

_PAGE = 200
_PAGE_BYTES = 1 << 18
"""The bytes that a follower gets at once: they are its own until it has taken them."""
_KEPT = 1000
"""Newest events kept of each followed log."""
_KEPT_BYTES = 1 << 22


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits of streams: per process, per token in a process, on a stream's silence and on its whole life."""

    total: int
    per_owner: int
    heartbeat_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Rendered:
    """An event as it is sent."""

    seq: int
    content: bytes


class Feed:
    """Serves the followers of all logs. `render` gives an event the form that followers get."""

    def __init__(
        self, log: EventLog, heads: LogHeads, render: Callable[[Recorded], bytes], limits: StreamLimits
    ) -> None:
        self._log = log
        self._heads = heads
        self._render = render
        self._limits = limits
        self._recent: dict[int, _Recent] = {}
        self._owners: Counter[int] = Counter()
        self._closing = asyncio.Event()

    @property
    def open_count(self) -> int:
        """Number of open streams."""
        return self._owners.total()

    @contextmanager
    def place(self, owner: int) -> Iterator[None]:
        """Reserve room for one stream until the block ends. Raises TooManyStreams if there is none."""
        if self.open_count >= self._limits.total:
            raise TooManyStreams(f"this process serves {self._limits.total} event streams at once; try again later")
        if self._owners[owner] >= self._limits.per_owner:
            raise TooManyStreams(f"this token has {self._limits.per_owner} event streams open; close one")
        self._owners[owner] += 1
        try:
            with STREAMS.track_inprogress():
                yield
        finally:
            self._owners[owner] -= 1
            self._owners += Counter()

    async def follow(self, cloud_id: int, after_seq: int) -> AsyncGenerator[Sequence[Rendered], None]:
        """Yield the events after a seq in order, some at a time; yield nothing, as a sign of life, after a silence.

        It ends after the longest time that a stream may last, and when the process stops; the reader then resumes
        elsewhere. Raises LogPutBack if the log was put back meanwhile: some of what the reader has may be gone.
        """
        end = monotonic() + self._limits.max_s
        times_forgotten = self._heads.times_forgotten(cloud_id)
        while not self._closing.is_set() and monotonic() < end:
            if self._heads.times_forgotten(cloud_id) != times_forgotten:
                raise LogPutBack(
                    "the log was put back to an earlier end while it was followed: "
                    f"it may not hold all events up to {after_seq}; begin anew"
                )
            page = await self._page(cloud_id, after_seq)
            if page:
                after_seq = page[-1].seq
                yield page
            elif self._heads.times_forgotten(cloud_id) != times_forgotten:
                continue
            elif await self._is_silent(cloud_id, after_seq, end):
                yield ()

    async def check_readable(self, cloud_id: int, after_seq: int) -> None:
        """Raise LogNewer if this process knows that it cannot read the log, LogPutBack if it ends before a seq."""
        await self._log.check_readable(cloud_id)
        if after_seq > await self._heads.reach(cloud_id):
            await self._log.check_reaches(cloud_id, after_seq)

    def close(self) -> None:
        """End every stream."""
        self._closing.set()

    async def _is_silent(self, cloud_id: int, after_seq: int, end: float) -> bool:
        """Wait for the next event; return True if none came within one heartbeat."""
        timeout_s = min(self._limits.heartbeat_s, max(0.0, end - monotonic()))
        growing = asyncio.create_task(self._heads.wait_beyond(cloud_id, after_seq, timeout_s))
        closing = asyncio.create_task(self._closing.wait())
        try:
            done, _ = await asyncio.wait({growing, closing}, return_when=asyncio.FIRST_COMPLETED)
            return growing in done and not growing.result()
        finally:
            growing.cancel()
            closing.cancel()

    async def _page(self, cloud_id: int, after_seq: int) -> Sequence[Rendered]:
        reach = await self._heads.reach(cloud_id)
        recent, times = self._recent.get(cloud_id), self._heads.times_forgotten(cloud_id)
        if recent is None or recent.times_forgotten != times or recent.last_seq + _KEPT < after_seq <= reach:
            # Nobody has followed so far, or for a long time: the kept events begin at this follower's place.
            mark = await self._log.mark_at(cloud_id, min(after_seq, reach))
            if mark.seq != min(after_seq, reach):
                self._heads.forget(cloud_id)
                return ()
            recent = self._recent[cloud_id] = _Recent(mark, times)
        if after_seq < recent.before_seq:
            tail = await self._log.tail(cloud_id, after_seq, _PAGE, _PAGE_BYTES)
            with Turns() as turns:
                await turns.give()
                return self._rendered(tail)
        is_looked_up = False
        async with recent.reading.taken():
            while recent.last_seq <= after_seq and recent.last_seq < reach:
                try:
                    tail, mark = await self._log.after(cloud_id, recent.mark, _PAGE, _PAGE_BYTES)
                except PredecessorMissing:
                    self._heads.forget(cloud_id)
                    return ()
                if not tail and is_looked_up:
                    raise LogBroken.between(cloud_id, recent.last_seq, reach)
                if not tail:  # a signal told of more than there is: it was of a log that was put back since
                    reach, is_looked_up = await self._heads.look(cloud_id), True
                    continue
                recent.extend(self._rendered(tail), mark)
        return recent.after(after_seq)

    def _rendered(self, tail: Sequence[Recorded]) -> list[Rendered]:
        return [Rendered(item.seq, self._render(item)) for item in tail]


class _Recent:
    """The newest rendered events of one log: those after `before_seq`, up to `last_seq`."""

    def __init__(self, mark: EventMark, times_forgotten: int) -> None:
        self.times_forgotten = times_forgotten
        self.before_seq = mark.seq
        self.mark = mark
        self.reading = CommonTurns()
        self._items: deque[Rendered] = deque()
        self._bytes = 0

    @property
    def last_seq(self) -> int:
        return self.mark.seq

    def extend(self, items: Sequence[Rendered], mark: EventMark) -> None:
        self._items.extend(items)
        self._bytes += sum(len(item.content) for item in items)
        self.mark = mark
        while len(self._items) > _KEPT or self._bytes > max(_KEPT_BYTES, len(self._items[-1].content)):
            self._bytes -= len(self._items.popleft().content)
            self.before_seq += 1

    def after(self, seq: int) -> Sequence[Rendered]:
        """Return the kept events after a seq, which must not lie before the oldest kept one."""
        begin = seq - self.before_seq
        if not 0 <= begin < len(self._items):
            return []
        found, size = list[Rendered](), 0
        for item in islice(self._items, begin, begin + _PAGE):
            found.append(item)
            size += len(item.content)
            if size > _PAGE_BYTES:
                break
        return found
