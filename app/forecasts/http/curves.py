"""Handler for the curves of the forecast in force."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import TableNotFound
from app.domain.flavors import check_flavor
from app.forecasts.curves import curves_now
from app.forecasts.http.missing import no_table_yet
from app.forecasts.table_reads import TableReads
from app.forecasts.wire.curves import CurvesQuery, curves_answer
from app.platform.http.bodies import read_query
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import beside


async def read_curves(request: Request) -> Response:
    """Read what the forecast in force says of a flavor by available slots and by lifetime, as of now.

    With the calibrated forecast another number of slots is read as if the room were so many instances larger or
    smaller.
    """
    flavor, name = read_query(request, CurvesQuery).flavor, request.path_params["cloud"]
    table = await reached(request, TableReads).newest(name)
    cloud, now_us = await reached(request, Scheduler).present(name)
    check_flavor(cloud.flavors, flavor)
    if table is None:
        raise TableNotFound(no_table_yet(name, cloud, now_us))
    policy, slots = cloud.policy, cloud.available_slots(flavor)
    sheet = await beside(curves_now(cloud, table, flavor, now_us))
    return respond(curves_answer(policy, table, flavor, slots, sheet))
