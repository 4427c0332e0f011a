"""Handler for the history of utilisation."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.values import Clock
from app.platform.http.bodies import read_query
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.scheduler import Scheduler
from app.utilisation.service import UtilisationHistory
from app.utilisation.wire import UtilisationQuery, utilisation_answer


async def read_utilisation(request: Request) -> Response:
    """Return cores in use by market, cores present, and counts of decisions, in buckets of time.

    Buckets are as narrow as the wanted number of points allows. Fine buckets are kept for a limited time: minutes for a
    week, hours for a year.
    """
    query = read_query(request, UtilisationQuery)
    name = request.path_params["cloud"]
    cloud = await reached(request, Scheduler).state(name)
    found = await reached(request, UtilisationHistory).read(
        name,
        system_clock=cloud.policy.clock is Clock.SYSTEM,
        begin_us=query.begin_us,
        end_us=query.end_us,
        points=query.points,
        node=query.node,
    )
    return respond(utilisation_answer(found))
