"""The knowledge of links to peers, from the database."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from app.domain.jobs import LinkRate
from app.federation.rules.data import Direction
from app.federation.rules.links import learned, told
from app.federation.store import LinkSamples

WAYS = (Direction.IN, Direction.OUT)
"""Inputs of the peer's jobs here, and outputs of our jobs there. Both are pulled by this service."""


class PeerLink(NamedTuple):
    """A link to a peer; `rate` None: too little came over it to tell."""

    direction: Direction
    rate: LinkRate | None


class Links:
    """Learns of links, and reads what was learned."""

    def __init__(self, samples: LinkSamples) -> None:
        self._samples = samples
        self._passed = Counter[tuple[str, str]]()

    def passed(self, peer: str, direction: str, count: int = 0) -> int:
        """Count bytes that this process has just read from a link; return all that it has read so far."""
        self._passed[peer, direction] += count
        return self._passed[peer, direction]

    async def of(self, peer: str, direction: Direction, told_mbit_s: float | None = None) -> LinkRate | None:
        """Return what is known of one link, by an operator's word if it has not been learned; None: too little."""
        samples, active = await self._samples.read(peer)
        waiting = active.get((peer, direction), 0)
        found = learned(samples.get((peer, direction), []), waiting)
        return told(told_mbit_s, waiting) if found is None and told_mbit_s is not None else found

    async def came(self, peer: str, direction: Direction, size: int, took_us: int) -> None:
        """Enter how much came over a link, and how long it took.

        The link carries that much, so what came beside an object in its time counts.
        """
        await self._samples.add(peer, direction, size, took_us)

    async def all(self, peer: str | None = None) -> dict[str, list[PeerLink]]:
        """Return the links over which something came or is to come, by peer."""
        samples, active = await self._samples.read(peer)
        found: dict[str, list[PeerLink]] = {}
        for name in sorted({one for one, _ in (*samples, *active)}):
            rates = [learned(samples.get((name, way), []), active.get((name, way), 0)) for way in WAYS]
            found[name] = [PeerLink(way, rate) for way, rate in zip(WAYS, rates, strict=True)]
        return found
