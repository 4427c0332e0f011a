"""The pages of plans: all of them, and one with a typical and a bad replay, and the distribution of its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from app.domain.times import SECOND_US, from_datetime, from_rfc3339
from app.federation.peering import PeerKeeper
from app.planning.plans import Plans, read_jobs
from app.planning.reliability import PoolTally, records_of
from app.platform.http.errors import Forbidden
from app.platform.http.reached import reached
from app.platform.pages.asking import number
from app.platform.pages.rendering import render, render_in_turns
from app.venues.reads import VenueReads

_ON_PAGE = 50
WIDTH = 1000.0
_MARK = 6.0


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
    plan = await plans.show(id_)
    outcomes, jobs = await plans.outcomes(plan), await read_jobs(plan)
    content = {**plan.content, "jobs": jobs}
    as_of_us = from_rfc3339(content["as_of"])
    span_s, first = _span_s(jobs, as_of_us), number(request, "from", len(jobs)) or 0
    return await render_in_turns(
        request,
        "plan.html",
        plan=content,
        as_of_us=as_of_us,
        jobs=jobs[first : first + _ON_PAGE],
        first=first,
        more=first + _ON_PAGE if first + _ON_PAGE < len(jobs) else None,
        left_out=content["left_out"][:_ON_PAGE],
        outcomes={one.job: one.outcome for one in outcomes},
        time_of=from_rfc3339,
        bars=bars,
        span_s=span_s,
        deadline_place=partial(_deadline_place, as_of_us=as_of_us, span_s=span_s),
        costs=cost_chart(content),
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
    pools = await reached(request, Plans).of_peer(peer)
    if not pools:
        await reached(request, PeerKeeper).show(peer)
    return _reliability(request, peer, pools, is_venue=False)


def _reliability(request: Request, name: str, tallies: Sequence[PoolTally], *, is_venue: bool) -> Response:
    whole, pools = records_of(tallies)
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


def cost_chart(content: Mapping[str, Any]) -> dict[str, Any] | None:
    """Draw the share of replays by what they cost at most, beside the cost on demand; None without a replay."""
    quantiles, fixed = content["cost_quantiles"], content["on_demand_cost"]
    if not quantiles:
        return None
    costs, shares = [0.0, *quantiles], [0.0, *(at / (len(quantiles) - 1) for at in range(len(quantiles)))]
    costs.append(1.05 * max(costs[-1], fixed or 0.0))
    return {
        "x": {"kind": "price", "name": "cost up to", "label": "cost", "values": costs, "shown": len(quantiles) // 2 + 1}
        | ({} if fixed is None else {"here": fixed}),
        "y": {"kind": "share", "label": "replays", "most": 1.02},
        "series": [{"label": "replays", "colour": "line-1", "values": [*shares, 1.0]}],
    }


def _span_s(jobs: Sequence[Mapping[str, Any]], as_of_us: int) -> float:
    """Return the time that all bars show, up to the last end and the last deadline."""
    ends = [one["to_s"] for job in jobs for one in (*job["typical"], *job["bad"])]
    due = [(from_rfc3339(job["deadline"]) - as_of_us) / SECOND_US for job in jobs if job["deadline"] is not None]
    return float(max([*ends, *due, 1.0]))


def _deadline_place(job: Mapping[str, Any], as_of_us: int, span_s: float) -> float | None:
    """Return where the mark of a job's deadline begins in its bar."""
    if job["deadline"] is None:
        return None
    due_s = (from_rfc3339(job["deadline"]) - as_of_us) / SECOND_US
    return min(WIDTH * due_s / span_s, WIDTH - _MARK)


def _refuse_scoped(request: Request) -> None:
    if request.scope["state"]["caller"].cloud is not None:
        raise Forbidden("your token is for one cloud, and plans are of no cloud")
