"""Whether anything changed, for pages that watch: asked of the database at most once a second for each cloud."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic

from app.domain.errors import CloudNotFound
from app.store.clouds import Clouds
from app.store.pulses import Pulse, Pulses

_KEPT_S = 0.9
_MOST = 1000


@dataclass(slots=True)
class _Seen:
    until: float
    pulse: Pulse


class Watching:
    """See the module's docstring; LogUnavailable as the store does."""

    def __init__(self, clouds: Clouds, pulses: Pulses) -> None:
        self._clouds = clouds
        self._pulses = pulses
        self._seen: dict[int, _Seen] = {}

    async def pulse(self, cloud: str) -> Pulse:
        """How far the cloud is, or was less than a second ago; CloudNotFound."""
        cloud_id = await self._clouds.find(cloud)
        if cloud_id is None:
            raise CloudNotFound(f"there is no cloud {cloud!r}")
        return await self._pulse(cloud_id)

    async def pulses(self, own: str | None) -> dict[str, Pulse]:
        """How far all clouds are, or the one of this name."""
        clouds = await self._clouds.list()
        return {name: await self._pulse(cloud_id) for name, cloud_id in clouds.items() if own in (None, name)}

    async def _pulse(self, cloud_id: int) -> Pulse:
        seen = self._seen.get(cloud_id)
        if seen is None or monotonic() > seen.until:
            pulse = await self._pulses.read(cloud_id)
            if len(self._seen) >= _MOST:
                self._seen.clear()
            seen = self._seen[cloud_id] = _Seen(monotonic() + _KEPT_S, pulse)
        return seen.pulse
