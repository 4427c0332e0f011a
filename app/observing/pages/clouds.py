"""The page of all clouds. It names those that do not answer in time and shows the others."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import LogNewer
from app.domain.times import from_datetime
from app.domain.values import Policy
from app.engine.cloud import Counts
from app.forecasts.table_reads import TableReads
from app.notices.leaving import NoticeOverview, notices_of
from app.observing.service import in_time
from app.platform.http.reached import reached
from app.platform.pages.asking import number, server_time
from app.platform.pages.rendering import render
from app.scheduling.scheduler import Scheduler
from app.utilisation.usage import Usage, usage_of

_ON_PAGE = 24


@dataclass(frozen=True, slots=True)
class Card:
    """One cloud; `table_age_us` is by its own clock, None before its first table."""

    name: str
    usage: Usage
    policy: Policy
    counts: Counts
    notices: NoticeOverview
    node_count: int
    seq: int
    epoch: int | None
    table_age_us: int | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A cloud whose log this process is too old to read."""

    name: str
    trouble: str


async def show(request: Request) -> Response:
    """Show a card for each cloud that the caller may see, by name."""
    own = request.scope["state"]["caller"].cloud
    names = [name for name in await reached(request, Scheduler).names() if own in (None, name)]
    first = number(request, "from", len(names)) or 0
    shown = names[first : first + _ON_PAGE]
    found = await asyncio.gather(*(in_time(name, _card(request, name)) for name in shown))
    cards = [card for card in found if card is not None]
    silent = [name for name, card in zip(shown, found, strict=True) if card is None]
    more = first + _ON_PAGE if first + _ON_PAGE < len(names) else None
    count = len(names)
    return render(
        request, "clouds.html", cards=cards, silent=silent, cloud_count=count, first=first, more=more, live="/ui/live"
    )


async def _card(request: Request, name: str) -> Card | Unreadable:
    try:
        newest = (await reached(request, TableReads).tables(name, None, 1)).items
        cloud = await reached(request, Scheduler).state(name)
    except LogNewer as error:
        return Unreadable(name, str(error))
    now = server_time(request)
    return Card(
        name,
        usage_of(cloud),
        cloud.policy,
        cloud.counts,
        notices_of(cloud, now),
        len(cloud.nodes),
        cloud.seq,
        newest[0].epoch if newest else None,
        max(0, cloud.present_us(from_datetime(now)) - newest[0].epoch_us) if newest else None,
    )
