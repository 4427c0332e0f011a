"""Handlers for the record of promises kept."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.forecasts.reliability import Reliabilities
from app.forecasts.wire.reliability import ReliabilityQuery, reliability_answer
from app.forecasts.wire.sla import sla_answer
from app.platform.http.bodies import read_query
from app.platform.http.page_forms import next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.scheduler import Scheduler


async def read_reliability(request: Request) -> Response:
    """Compare promised eviction probabilities with outcomes: by promise, by the tables' estimates, and by epoch.

    It counts the spot instances started in a stretch of the log. An instance evicted after its declared lifetime kept
    its promise; one that still runs within it is not counted.
    """
    query = read_query(request, ReliabilityQuery)
    name = request.path_params["cloud"]
    cloud, now_us = await reached(request, Scheduler).present(name)
    stretch = await reached(request, Reliabilities).read(name, query.after_seq, now_us)
    more = stretch.last_seq if stretch.last_seq < cloud.seq else None
    return respond(reliability_answer(stretch, next_link(request, more, "after_seq")))


async def read_sla(request: Request) -> Response:
    """Show the standing of each SLA class: promised, admitted, evicted, and the rest of its eviction budget.

    A class is all instances promised one eviction probability. The whole log is counted. An instance evicted after its
    declared lifetime kept its promise. Each class is judged by stratum of declared lifetimes too, and all of them
    together by flavor and by week.
    """
    found = await reached(request, Scheduler).attainments(request.path_params["cloud"])
    return respond(sla_answer(found))
