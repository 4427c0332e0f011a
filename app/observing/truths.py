"""Keeps for each cloud how true its newest estimates were.

Reading that takes a stretch of the log, so no scrape does it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic

from app.domain.errors import CloudNotFound, LogNewer
from app.forecasts.reliability import Reliabilities
from app.judging.truths import Truth
from app.observing.facts import EstimateFacts
from app.scheduling.scheduler import Scheduler

KEPT_S = 300.0
"""Verdicts are read again when they are asked for and older than this."""
_ASKED_FOR_S = 3 * KEPT_S
"""A cloud that nobody asked for in this time is forgotten."""


@dataclass(slots=True)
class _Watched:
    """The verdicts on a cloud's estimates. `due` and `asked` are by the monotonic clock."""

    asked: float
    due: float = 0.0
    estimates: tuple[EstimateFacts, ...] = ()


class KeptTruths:
    """The verdicts of `GET .../reliability` on all and by stratum, for the clouds that are asked for."""

    def __init__(self, reliabilities: Reliabilities, scheduler: Scheduler) -> None:
        self._reliabilities, self._scheduler = reliabilities, scheduler
        self._known: dict[str, _Watched] = {}
        self._asked = asyncio.Event()

    def of(self, cloud: str) -> tuple[EstimateFacts, ...]:
        """Return what is known of a cloud, at first nothing, and have it read again if it is old."""
        now = monotonic()
        known = self._known.setdefault(cloud, _Watched(now))
        known.asked = now
        if known.due <= now:
            self._asked.set()
        return known.estimates

    async def keep(self) -> None:
        """Read what is asked for and old, one cloud after the other, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self.read_due()

    async def read_due(self) -> None:
        """Read what is old. A cloud that cannot be read keeps what it had, and waits until it is due again."""
        began = monotonic()
        self._known = {name: one for name, one in self._known.items() if began - one.asked < _ASKED_FOR_S}
        for name, one in [*self._known.items()]:
            if one.due <= began:
                one.due = began + KEPT_S
                one.estimates = await self._read(name)

    async def _read(self, cloud: str) -> tuple[EstimateFacts, ...]:
        try:
            _, now_us = await self._scheduler.present(cloud)
            stretch = await self._reliabilities.read(cloud, None, now_us)
        except (CloudNotFound, LogNewer):
            return ()
        return tuple(_facts(one) for one in stretch.reliability.truths if one.by != "flavor")


def _facts(one: Truth) -> EstimateFacts:
    return EstimateFacts(
        one.name,
        one.cases,
        one.evicted,
        one.said,
        one.log_loss,
        one.constant_log_loss,
        one.epochs,
        one.covered,
    )
