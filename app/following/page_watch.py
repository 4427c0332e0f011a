"""Tells open pages that a cloud changed. Polls the database at most twice a second per cloud."""

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

_MOST = 1000


@dataclass(frozen=True, slots=True)
class WatchLimits:
    """Limits of the watch: how long a pulse is kept, in seconds, and pages watched in all and with one token."""

    kept_s: float = 0.5
    pages: int = 500
    pages_of_one: int = 100


@dataclass(slots=True)
class _SeenPulse:
    until: float
    pulse: Pulse


class PageWatch:
    """Watches clouds for open pages. Raises LogUnavailable."""

    def __init__(self, clouds: Clouds, pulses: Pulses, heads: LogHeads, limits: WatchLimits | None = None) -> None:
        self._clouds = clouds
        self._pulses = pulses
        self._heads = heads
        self._limits = limits or WatchLimits()
        self._seen: dict[int, _SeenPulse] = {}
        self._owners: Counter[int] = Counter()
        self.closing = asyncio.Event()

    @contextmanager
    def place(self, owner: int) -> Iterator[None]:
        """Reserve room for a page of this token until the block ends. Raises TooManyStreams."""
        self.check_room(owner)
        self._owners[owner] += 1
        try:
            yield
        finally:
            self._owners[owner] -= 1
            self._owners += Counter()

    def check_room(self, owner: int) -> None:
        """Raise TooManyStreams if this process or this token has too many open pages."""
        if self._owners.total() >= self._limits.pages:
            raise TooManyStreams(
                f"{self._limits.pages} pages are watched through this process already; try again later"
            )
        if self._owners[owner] >= self._limits.pages_of_one:
            raise TooManyStreams(f"{self._limits.pages_of_one} pages are open with this token already; close one")

    async def pulse(self, cloud: str) -> Pulse:
        """Return the cloud's pulse, at most a moment old. Raises CloudNotFound."""
        return await self._pulse(await self._clouds.id_of(cloud))

    async def pulses(self, own: str | None) -> dict[str, Pulse]:
        """Return the pulses of all clouds, or only of the one named."""
        clouds = await self._clouds.list()
        return {name: await self._pulse(cloud_id) for name, cloud_id in clouds.items() if own in (None, name)}

    async def wait(self, cloud: str, seq: int, timeout_s: float) -> None:
        """Wait until the cloud's log grows beyond `seq`, the time is over, or the process stops."""
        growing = asyncio.create_task(self._heads.wait_beyond(await self._clouds.id_of(cloud), seq, timeout_s))
        await self._until(growing)

    async def rest(self, seconds: float) -> None:
        """Wait this long, or until the process stops."""
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

    async def _pulse(self, cloud_id: int) -> Pulse:
        seen = self._seen.get(cloud_id)
        if seen is None or monotonic() > seen.until:
            # A page that leaves cancels the watch, but not a statement under way, since that would cost its connection.
            pulse = await asyncio.shield(self._pulses.read(cloud_id))
            if len(self._seen) >= _MOST:
                self._seen.clear()
            seen = self._seen[cloud_id] = _SeenPulse(monotonic() + self._limits.kept_s, pulse)
        return seen.pulse
