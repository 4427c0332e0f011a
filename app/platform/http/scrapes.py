"""Answers to those who scrape metrics: one text for all who ask for it within a second."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic

from starlette.requests import Request
from starlette.responses import Response

from app.platform.asked import CommonTurns
from app.platform.telemetry.exposing import Exposable, GatheredMetrics, content_type_for
from app.platform.turns import in_turns

KEPT_S = 1.0
"""A question repeated within this time gets the same answer, so that nobody can keep the service busy with itself."""


class Exposition:
    """The metrics of one operation. Other work has turns while they are gathered and written."""

    def __init__(self) -> None:
        self._making = CommonTurns()
        self._gathered = GatheredMetrics(())
        self._kept_until = 0.0

    async def text(self, collect: Callable[[], Awaitable[Exposable]], content_type: str) -> bytes:
        """Return the text. `collect` tells the metrics, where those that are kept are too old."""
        async with self._making.taken():
            if monotonic() >= self._kept_until:
                self._gathered = await in_turns(GatheredMetrics.of(await collect()))
                self._kept_until = monotonic() + KEPT_S
            return await in_turns(self._gathered.text(content_type))


async def scraped(request: Request, collect: Callable[[], Awaitable[Exposable]]) -> Response:
    """Return the metrics that `collect` tells, or the answer of this operation that is younger than a second."""
    kept: dict[str, Exposition] = request.app.state.expositions
    exposition = kept.setdefault(request.scope["state"]["operation"], Exposition())
    content_type = content_type_for(request.headers.get("accept", ""))
    return Response(await exposition.text(collect, content_type), headers={"Content-Type": content_type})
