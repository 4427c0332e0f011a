"""Whether anything changed, for pages that watch: asked of the database at most twice a second for each cloud."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from app.domain.errors import TooManyStreams
from app.following.store.pulses import Pulse, Pulses
from app.scheduling.log_heads import LogHeads
from app.scheduling.store.clouds import Clouds

_KEPT_S = 0.5
_MOST = 1000
_STREAMS_MAX = 500
_STREAMS_OF_ONE = 100


@dataclass(slots=True)
class _SeenPulse:
    until: float
    pulse: Pulse


class PageWatch:
    """See the module's docstring; LogUnavailable as the store does."""

    def __init__(self, clouds: Clouds, pulses: Pulses, heads: LogHeads) -> None:
        self._clouds = clouds
        self._pulses = pulses
        self._heads = heads
        self._seen: dict[int, _SeenPulse] = {}
        self._owners: Counter[int] = Counter()
        self.closing = asyncio.Event()

    @contextmanager
    def place(self, owner: int) -> Iterator[None]:
        """Room for a page that watches with this token, until the block ends; TooManyStreams where there is none."""
        self.check_room(owner)
        self._owners[owner] += 1
        try:
            yield
        finally:
            self._owners[owner] -= 1
            self._owners += Counter()

    def check_room(self, owner: int) -> None:
        """TooManyStreams where no more can watch through this process, or with this token."""
        if self._owners.total() >= _STREAMS_MAX:
            raise TooManyStreams(f"{_STREAMS_MAX} pages are watched through this process already; try again later")
        if self._owners[owner] >= _STREAMS_OF_ONE:
            raise TooManyStreams(f"{_STREAMS_OF_ONE} pages are open with this token already; close one")

    async def pulse(self, cloud: str) -> Pulse:
        """How far the cloud is, or was a moment ago; CloudNotFound."""
        return await self._pulse(await self._id(cloud))

    async def pulses(self, own: str | None) -> dict[str, Pulse]:
        """How far all clouds are, or the one of this name."""
        clouds = await self._clouds.list()
        return {name: await self._pulse(cloud_id) for name, cloud_id in clouds.items() if own in (None, name)}

    async def wait(self, cloud: str, seq: int, timeout_s: float) -> None:
        """Until the cloud's log reaches beyond `seq`, or this time is over, or the process stops."""
        growing = asyncio.create_task(self._heads.wait_beyond(await self._id(cloud), seq, timeout_s))
        await self._until(growing)

    async def rest(self, seconds: float) -> None:
        """This time, unless the process stops before it is over."""
        await self._until(asyncio.create_task(asyncio.sleep(seconds)))

    def close(self) -> None:
        """End every watch."""
        self.closing.set()

    async def _until(self, work: asyncio.Task[object]) -> None:
        closing = asyncio.create_task(self.closing.wait())
        try:
            await asyncio.wait({work, closing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            closing.cancel()

    async def _id(self, cloud: str) -> int:
        return await self._clouds.id_of(cloud)

    async def _pulse(self, cloud_id: int) -> Pulse:
        seen = self._seen.get(cloud_id)
        if seen is None or monotonic() > seen.until:
            # Who leaves cancels the watch, but not a statement that is under way: that would cost its connection.
            pulse = await asyncio.shield(self._pulses.read(cloud_id))
            if len(self._seen) >= _MOST:
                self._seen.clear()
            seen = self._seen[cloud_id] = _SeenPulse(monotonic() + _KEPT_S, pulse)
        return seen.pulse
