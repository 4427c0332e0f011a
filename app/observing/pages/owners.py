"""The page of owners: who runs how much of a cloud's spare capacity, what its quota allows, and how it overruns."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.platform.http.reached import reached
from app.platform.pages.asking import number
from app.platform.pages.rendering import render
from app.scheduling.owners import owners_of
from app.scheduling.scheduler import Scheduler
from app.utilisation.usage import usage_of

_ON_PAGE = 50


async def show(request: Request) -> Response:
    """Show the owners with most running cores first."""
    name = request.path_params["cloud"]
    cloud, now_us = await reached(request, Scheduler).present(name)
    policy, usage = cloud.policy, usage_of(cloud)
    owners = sorted(await owners_of(cloud, now_us), key=lambda one: (-one.account.cores, one.name or ""))
    first = number(request, "from", len(owners)) or 0
    return render(
        request,
        "owners.html",
        policy=policy,
        usage=usage,
        owners=owners[first : first + _ON_PAGE],
        named=sum(one.name is not None for one in owners),
        overrunning=sum(one.overrunning for one in owners),
        overrunning_cores=sum(one.overrunning_cores for one in owners),
        own_quotas=sum(one.has_own_quota for one in owners),
        first=first,
        more=first + _ON_PAGE if first + _ON_PAGE < len(owners) else None,
        live=f"/ui/clouds/{name}/live",
    )
