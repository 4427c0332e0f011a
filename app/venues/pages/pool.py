"""The page of a pool: its price, how many live by lifetime under some bids, and which bid a lifetime needs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import Conflict
from app.domain.times import DAY_US, HOUR_US, SECOND_US
from app.platform.http.reached import reached
from app.platform.pages.rendering import render
from app.venues.pages.venues import refuse_scoped, stale_us
from app.venues.reads import FoundCurves, VenueReads, pool_id
from app.venues.rules.curves import LIFETIMES_US, LevelBids, SurvivalCurve
from app.venues.rules.history import PriceSteps
from app.venues.rules.observed import QuoteSource
from app.venues.rules.quotes import CONFIDENCE
from app.venues.rules.rates import RevokedBy
from app.venues.rules.survival import highest_within, lattice

_MOST_BIDS = 4
_BID = re.compile(r"[0-9]{1,5}(\.[0-9]{1,6})?")
_SHOWN_US, _POINTS = 14 * DAY_US, 336
_LONGEST_TEXT = 60
_SHOWN_POINT = LIFETIMES_US.index(6 * HOUR_US)
"""The point that a legend tells of before anybody points at another."""
_PROBLEM = "Write up to four prices with points, like 0.05, 0.2."


async def show(request: Request) -> Response:
    """Show a pool as of its venue's newest price."""
    refuse_scoped(request)
    reads, path = reached(request, VenueReads), request.path_params
    venue = await reads.show(path["venue"])
    pool = await reads.pool(venue, pool_id(path["pool"]))
    text = request.query_params.get("bids", "")[:_LONGEST_TEXT]
    bids = _bids(text)
    is_by_price, found, trouble = venue.revoked_by is RevokedBy.PRICE, None, ""
    if not (is_by_price and venue.last_us is None):
        try:
            at_us = venue.last_us if is_by_price else None
            found = await reads.curves(venue.name, pool.id, bids or [], LIFETIMES_US, at_us)
        except Conflict as error:
            trouble = str(error)
    return render(
        request,
        "pool.html",
        venue=venue,
        pool=pool,
        text=text,
        problem=_PROBLEM if bids is None else "",
        trouble=trouble,
        found=found,
        confidence=CONFIDENCE,
        stale_us=stale_us(request, venue),
        live=f"/ui/venues/{venue.name}/live",
        **_charts(found, venue.currency),
    )


def _bids(text: str) -> list[float] | None:
    """Return the bids that were written, none if nothing was; None if they cannot be read."""
    words = [word for word in re.split(r"[,;\s]+", text) if word]
    if len(words) > _MOST_BIDS or not all(_BID.fullmatch(word) for word in words):
        return None
    return [float(word) for word in words]


def _charts(found: FoundCurves | None, currency: str) -> dict[str, Any]:
    if found is None or not found.curves.curves:
        return {"survival": None, "bids": None, "prices": None}
    curves = found.curves
    steps, fixed, bids = found.steps, found.pool.on_demand, curves.least_bids
    return {
        "survival": survival_chart(curves.curves),
        "bids": bid_chart(curves.lifetimes_us, bids, fixed, currency) if bids else None,
        "prices": None if steps is None else price_chart(steps, found.as_of_us, fixed, currency),
    }


def survival_chart(curves: Sequence[SurvivalCurve]) -> dict[str, Any]:
    """Draw survival by lifetime: what was counted or observed as lines, what is learned dashed, a bound of the last."""
    bids, series = sorted({curve.bid or 0.0 for curve in curves}), []
    for curve in curves:
        named = "expected" if curve.bid is None else f"bid {curve.bid:.4g}"
        look: dict[str, Any] = {"label": named, "colour": f"line-{bids.index(curve.bid or 0.0) % 5 + 1}"}
        if curve.source is QuoteSource.LEARNED:
            look |= {"label": f"{named}, learned", "dash": [6, 4]}
        series.append(look | {"values": [point.survival for point in curve.points]})
    last = curves[-1]
    bound = {"label": "at least" if last.bid is None else f"bid {last.bid:.4g}, at least", "dash": [2, 4]}
    series.append(bound | {"colour": "edge", "values": [point.at_least for point in last.points]})
    return {
        "x": _lifetimes([point.lifetime_us for point in last.points]),
        "y": {"kind": "share", "label": "alive", "most": 1.02},
        "series": series,
    }


def _lifetimes(lifetimes_us: Sequence[int]) -> dict[str, Any]:
    times = [us / SECOND_US for us in lifetimes_us]
    look = {"kind": "length", "name": "lifetime", "label": "lifetime", "lowest": times[0], "shown": _SHOWN_POINT}
    return look | {"values": times}


def bid_chart(
    lifetimes_us: Sequence[int], least: Sequence[LevelBids], on_demand: float | None, currency: str
) -> dict[str, Any]:
    """Draw the least bid by lifetime at each probability, beside the price on demand."""
    series: list[dict[str, Any]] = [
        {"label": f"lives at {100 * one.probability:g} %", "colour": f"line-{at + 1}", "values": [*one.bids]}
        for at, one in enumerate(least)
    ]
    if on_demand is not None:
        fixed = {"label": "on demand", "colour": "edge", "dash": [6, 4]}
        series.append(fixed | {"values": [on_demand for _ in lifetimes_us]})
    return {
        "x": _lifetimes(lifetimes_us),
        "y": {"kind": "price", "label": f"least bid, {currency} an hour"},
        "series": series,
    }


def price_chart(steps: PriceSteps, as_of_us: int, on_demand: float | None, currency: str) -> dict[str, Any]:
    """Draw the highest price of each hour of the last two weeks; a line ends where the price is unknown."""
    every_us = _SHOWN_US // _POINTS
    starts_us = lattice(as_of_us - _SHOWN_US, as_of_us - every_us + 1, every_us)
    highest = highest_within(steps, starts_us, every_us)
    values = [None if np.isnan(one) else one for one in highest.tolist()]
    series: list[dict[str, Any]] = [{"label": "price", "colour": "line-1", "shape": "step", "values": values}]
    if on_demand is not None:
        series.append({"label": "on demand", "colour": "edge", "dash": [6, 4], "values": [on_demand for _ in values]})
    return {
        "x": {"kind": "time", "name": "UTC", "values": [us / SECOND_US for us in starts_us.tolist()]},
        "y": {"kind": "price", "label": f"price, {currency} an hour"},
        "series": series,
    }
