"""Handler for advice on checkpoints."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.clusters.advising import advise, advise_flavor
from app.clusters.wire.advice import AdviceQuery, FlavorAdviceQuery, advice_answer
from app.domain.errors import TableNotFound
from app.engine.cloud import Cloud
from app.forecast.table import QuantileTable
from app.forecasts.table_reads import TableReads
from app.platform.http.auth import project_of
from app.platform.http.bodies import read_query
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.log_reads import LogReads
from app.scheduling.scheduler import Scheduler


async def advise_checkpoint(request: Request) -> Response:
    """Tell when a job on a running spot instance should be checkpointed. Nothing is changed or recorded.

    The hazard of an eviction comes from the forecast in force, for an instance of this age in its room. A checkpoint is
    due when hazard x work at risk, added up since the last one, reaches the pause that it costs. Where one can be
    written within the cloud's grace period, the notice of an eviction is the time for it.
    """
    query, name, spot = read_query(request, AdviceQuery), request.path_params["cloud"], request.path_params["spot"]
    scheduler = reached(request, Scheduler)
    if project_of(request) is not None:
        await reached(request, LogReads).instance(name, spot, project_of(request))
    if spot not in (await scheduler.state(name)).running:
        await reached(request, LogReads).instance(name, spot)
    cloud, now_us, table = await _forecast(request)
    started_us = cloud.running[spot].started_us if spot in cloud.running else now_us
    found = advise(cloud, table, spot, query.terms(now_us - started_us), now_us)
    return respond(advice_answer(found, cloud.policy, table))


async def advise_flavor_checkpoint(request: Request) -> Response:
    """Tell when a job on a spot instance of a flavor should be checkpointed, of any age, whether or not one runs.

    It is seen as one that had started so long ago: those that started after it would be evicted before it.
    """
    query = read_query(request, FlavorAdviceQuery)
    cloud, now_us, table = await _forecast(request)
    terms = query.terms(query.age_us)
    found = advise_flavor(cloud, table, query.flavor, query.age_us, query.lifetime_us, terms, now_us)
    return respond(advice_answer(found, cloud.policy, table))


async def _forecast(request: Request) -> tuple[Cloud, int, QuantileTable]:
    """Return the cloud's state, its present time, and the table in force."""
    name = request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud, now_us = await reached(request, Scheduler).present(name)
    if table is None or table.seq > cloud.seq:
        raise TableNotFound("no table of quotes was published yet")
    return cloud, now_us, table
