"""The page of one cloud: its use now and over time, and its last decisions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.admission.sparing import can_begin
from app.domain.times import from_datetime
from app.domain.values import Clock
from app.engine.cloud import Cloud
from app.explaining.service import Explaining
from app.notices.leaving import notices_of
from app.platform.http.reached import reached
from app.platform.pages.asking import choice, server_time
from app.platform.pages.rendering import render_in_turns
from app.scheduling.log_reads import LogReads
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import slots_of
from app.utilisation.service import Utilisation, UtilisationHistory, UtilisationPoint
from app.utilisation.timeline import (
    DEFAULT_RANGE,
    RANGES,
    decisions_chart,
    strips,
    summary,
    utilisation_chart,
)
from app.utilisation.usage import usage_by_node, usage_of

_NODES_SHOWN = 200
_STRIPS_SHOWN = 40
_STRIP_POINTS = 72
_POINTS = 240
_BARS = 60
_ROWS = 24
_DECISIONS_SHOWN = 8


async def show(request: Request) -> Response:
    """Show the cloud's first page."""
    name = request.path_params["cloud"]
    over = choice(request, "over", tuple(RANGES)) or DEFAULT_RANGE
    decisions = (await reached(request, Explaining).decisions(name, None, _DECISIONS_SHOWN)).items
    state = await reached(request, Scheduler).state(name)
    now = _now(state, server_time(request))
    slots = await slots_of(state, [flavor.name for flavor in now["flavors"]])
    names = [one.node.name for one in now["nodes"]]
    at_risk = [one.instance.instance_id for one in now["notices"].at_risk]
    proposed = await reached(request, LogReads).proposed_moves(name, at_risk)
    system_clock = state.policy.clock is Clock.SYSTEM
    return await render_in_turns(
        request,
        "cloud.html",
        decisions=decisions,
        over=over,
        ranges=tuple(RANGES),
        live=f"/ui/clouds/{name}/live",
        **now,
        proposed={one: told for one, told in proposed.items() if can_begin(state, told.moves)},
        slots=slots,
        **await _over_time(request, over, names, system_clock=system_clock),
    )


def _now(state: Cloud, now: datetime) -> dict[str, Any]:
    """Return what the state says, read at one moment, since it may change later."""
    nodes = usage_by_node(state)
    return {
        "usage": usage_of(state),
        "nodes": nodes[:_NODES_SHOWN],
        "node_count": len(nodes),
        "flavors": [*state.flavors.values()],
        "counts": state.counts,
        "notices": notices_of(state, now),
        "policy": state.policy,
        "seq": state.seq,
        "at_us": state.at_us,
        "present_us": state.present_us(from_datetime(now)),
    }


async def _over_time(request: Request, over: str, nodes: list[str], *, system_clock: bool) -> dict[str, Any]:
    name = request.path_params["cloud"]
    history = reached(request, UtilisationHistory)
    newest = await history.read(name, system_clock=system_clock, points=1)
    length_us = RANGES[over]
    begin_us = 0 if length_us is None else max(0, newest.as_of_us - length_us)
    whole = await history.read(name, system_clock=system_clock, begin_us=begin_us, points=_POINTS)
    coarse = await history.read(name, system_clock=system_clock, begin_us=begin_us, points=_BARS)
    rows = await history.read(name, system_clock=system_clock, begin_us=begin_us, points=_ROWS)
    by_node = await history.read_nodes(
        name, nodes[:_STRIPS_SHOWN], system_clock=system_clock, begin_us=begin_us, end_us=None, points=_STRIP_POINTS
    )
    return {
        "history": whole,
        "rows": list(reversed(rows.points)),
        "summary": summary(whole),
        "charts": _charts(whole, coarse),
        "strips": strips(by_node),
    }


def _charts(fine: Utilisation, coarse: Utilisation) -> tuple[dict[str, object], dict[str, object]] | None:
    return (utilisation_chart(fine), decisions_chart(coarse)) if any(map(_shows, coarse.points)) else None


def _shows(point: UtilisationPoint) -> bool:
    """True if a point has anything to draw: cores, or decisions on spot starts."""
    return bool(point.total_mean or point.used_peak or point.spot_admitted or point.spot_rejected or point.evicted)
