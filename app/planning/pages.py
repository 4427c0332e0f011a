"""The pages of plans: all of them, and one with a typical and a bad replay, and the distribution of its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from app.domain.times import from_datetime, from_rfc3339
from app.federation.peering import PeerKeeper
from app.planning.plans import Plans, StoredOutcome
from app.planning.reliability import records_of
from app.platform.http.errors import Forbidden
from app.platform.http.reached import reached
from app.platform.pages.asking import number
from app.platform.pages.rendering import render
from app.venues.reads import VenueReads

_ON_PAGE = 50
WIDTH = 1000.0


class BarPart(NamedTuple):
    """A part of a job's bar, in thousandths of its width; the fill is a class of the page's style."""

    left: float
    width: float
    fill: str


async def show_all(request: Request) -> Response:
    """Show plans, the newest first."""
    _refuse_scoped(request)
    page = await reached(request, Plans).list(number(request, "before"), _ON_PAGE)
    return render(request, "plans.html", plans=page.items, before=page.marker, moment_of=from_datetime)


async def show(request: Request) -> Response:
    """Show a plan as it was told, and what came of its jobs."""
    _refuse_scoped(request)
    plans, id_ = reached(request, Plans), request.path_params["plan"]
    plan, outcomes = await plans.show(id_), await plans.outcomes(id_)
    content, first = plan.content, number(request, "from", len(plan.content["jobs"])) or 0
    return render(
        request,
        "plan.html",
        plan=content,
        as_of_us=from_rfc3339(content["as_of"]),
        jobs=content["jobs"][first : first + _ON_PAGE],
        first=first,
        more=first + _ON_PAGE if first + _ON_PAGE < len(content["jobs"]) else None,
        left_out=content["left_out"][:_ON_PAGE],
        outcomes={one.job: one.outcome for one in outcomes},
        time_of=from_rfc3339,
        bars=bars,
        steps=cost_steps(content),
        on_demand=_place(content["on_demand_cost"], content),
    )


async def show_reliability(request: Request) -> Response:
    """Show how true plans were for the jobs that began in a venue."""
    _refuse_scoped(request)
    venue = await reached(request, VenueReads).show(request.path_params["venue"])
    return _reliability(request, venue.name, await reached(request, Plans).of_venue(venue.name), is_venue=True)


async def show_peer_reliability(request: Request) -> Response:
    """Show how true plans were for the jobs that began at a peer."""
    _refuse_scoped(request)
    peer = request.path_params["peer"]
    outcomes = await reached(request, Plans).of_peer(peer)
    if not outcomes:
        await reached(request, PeerKeeper).show(peer)
    return _reliability(request, peer, outcomes, is_venue=False)


def _reliability(request: Request, name: str, outcomes: Sequence[StoredOutcome], *, is_venue: bool) -> Response:
    whole, pools = records_of(outcomes)
    return render(request, "venue_reliability.html", name=name, is_venue=is_venue, whole=whole, pools=pools[:_ON_PAGE])


def bars(stretches: Sequence[Mapping[str, Any]], most_s: float) -> list[BarPart]:
    """Return the parts of a job's bar: on spot machines, those that were lost, and on demand."""
    scale = WIDTH / max(most_s, 1e-9)
    return [
        BarPart(
            one["from_s"] * scale,
            max((one["to_s"] - one["from_s"]) * scale, 1.0),
            "on-demand" if one["way"] is None else "evicted" if one["lost"] else "spot",
        )
        for one in stretches
    ]


def cost_steps(content: Mapping[str, Any]) -> list[tuple[float, float, float]]:
    """Return the distribution of cost as rectangles: left, width, and the share of replays that cost up to there."""
    quantiles = content["cost_quantiles"]
    edges = [*quantiles[1:], _most(content)] if quantiles else []
    found = []
    for at, (low, high) in enumerate(zip(quantiles, edges, strict=True)):
        left, right = (WIDTH * one / max(_most(content), 1e-9) for one in (low, high))
        found.append((left, max(right - left, 0.0), at / (len(quantiles) - 1)))
    return found


def _most(content: Mapping[str, Any]) -> float:
    return 1.05 * max(float(one or 0.0) for one in (content["on_demand_cost"], *content["cost_quantiles"]))


def _place(cost: float | None, content: Mapping[str, Any]) -> float | None:
    return None if cost is None else WIDTH * cost / max(_most(content), 1e-9)


def _refuse_scoped(request: Request) -> None:
    if request.scope["state"]["caller"].cloud is not None:
        raise Forbidden("your token is for one cloud, and plans are of no cloud")
