"""The page of owners: who runs how much of a cloud's spare capacity, what its quota allows, and how it overruns."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.platform.http.reached import reached
from app.platform.pages.asking import number
from app.platform.pages.rendering import render
from app.scheduling.owners import OwnersMoment
from app.scheduling.scheduler import Scheduler
from app.utilisation.usage import usage_of

_ON_PAGE = 50


async def show(request: Request) -> Response:
    """Show the owners with most running cores first."""
    name = request.path_params["cloud"]
    cloud, now_us = await reached(request, Scheduler).present(name)
    policy, usage, moment = cloud.policy, usage_of(cloud), await OwnersMoment.of(cloud, now_us)
    count, (overrunning, overrunning_cores) = len(moment.names), moment.overrunning
    first = number(request, "from", count) or 0
    shown = (await moment.largest(first + _ON_PAGE))[first:]
    return render(
        request,
        "owners.html",
        policy=policy,
        usage=usage,
        owners=[*map(moment.standing, shown)],
        named=moment.named,
        overrunning=overrunning,
        overrunning_cores=overrunning_cores,
        own_quotas=moment.own_quotas,
        first=first,
        more=first + _ON_PAGE if first + _ON_PAGE < count else None,
        live=f"/ui/clouds/{name}/live",
    )
