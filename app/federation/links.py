"""The knowledge of links to peers, from the database."""

from __future__ import annotations

from typing import NamedTuple

from app.domain.jobs import LinkRate
from app.federation.rules.data import Direction
from app.federation.rules.links import learned, told
from app.federation.store import LinkSamples

WAYS = (Direction.IN, Direction.OUT)
"""Inputs of the peer's jobs here, and outputs of our jobs there. Both are pulled by this service."""


class PeerLink(NamedTuple):
    """A link to a peer. `rate` None: too little came over it to tell; `active`: what waits or is under way."""

    direction: Direction
    rate: LinkRate | None
    active: int


class Links:
    """Learns of links, and reads what was learned."""

    def __init__(self, samples: LinkSamples) -> None:
        self._samples = samples

    async def of(self, peer: str, direction: Direction, told_mbit_s: float | None = None) -> PeerLink:
        """Return what is known of one link, by an operator's word if it has not been learned."""
        samples, active = await self._samples.read(peer)
        waiting = active.get((peer, direction), 0)
        found = learned(samples.get((peer, direction), []), waiting)
        rate = told(told_mbit_s, waiting) if found is None and told_mbit_s is not None else found
        return PeerLink(direction, rate, waiting)

    async def came(self, peer: str, direction: Direction, size: int, took_us: int) -> None:
        """Enter an object that came: the bytes that it would have brought alone, and the time that it took."""
        await self._samples.add(peer, direction, size, took_us)

    async def all(self, peer: str | None = None) -> dict[str, list[PeerLink]]:
        """Return the links over which something came or is to come, by peer."""
        samples, active = await self._samples.read(peer)
        found: dict[str, list[PeerLink]] = {}
        for name in sorted({one for one, _ in (*samples, *active)}):
            waiting = {way: active.get((name, way), 0) for way in WAYS}
            found[name] = [
                PeerLink(way, learned(samples.get((name, way), []), count), count) for way, count in waiting.items()
            ]
        return found
