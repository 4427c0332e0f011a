"""Handlers for clouds and their policies."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.platform.http.auth import caller_of
from app.platform.http.bodies import read_body, read_query
from app.platform.http.page_forms import PageQuery, next_link, page_after
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.scheduler import Scheduler
from app.scheduling.wire.clouds import CloudBody, CloudChange, cloud_answer
from tenure_client.forms.answer import Link
from tenure_client.forms.clouds import CloudNameAnswer, CloudsAnswer


async def create_cloud(request: Request) -> Response:
    """Create an empty cloud. Spot starts are rejected until the warm-up is over and the first table is published."""
    body = await read_body(request, CloudBody)
    scheduler = reached(request, Scheduler)
    cloud = await scheduler.create_cloud(body.name, scheduler.new_policy(body.policy.named()), body.at_us)
    return respond(cloud_answer(body.name, cloud), 201, {"Location": f"/v1/clouds/{body.name}"})


async def list_clouds(request: Request) -> Response:
    """List all clouds by name. A token of one cloud sees only that one."""
    query = read_query(request, PageQuery)
    own = caller_of(request).cloud
    there = [name for name in await reached(request, Scheduler).names() if own in (None, name)]
    names, marker = page_after(there, query.marker, query.limit, str)
    clouds = [CloudNameAnswer(name=name, links=[Link(rel="self", href=f"/v1/clouds/{name}")]) for name in names]
    return respond(CloudsAnswer(clouds=clouds, links=next_link(request, marker)))


async def show_cloud(request: Request) -> Response:
    """Show a cloud's policy, the end of its log, and counts of the requests so far."""
    name = request.path_params["cloud"]
    return respond(cloud_answer(name, await reached(request, Scheduler).state(name)))


async def change_cloud(request: Request) -> Response:
    """Change the policy from now on. Earlier decisions keep the promise that they were given."""
    name = request.path_params["cloud"]
    body = await read_body(request, CloudChange)
    cloud = await reached(request, Scheduler).change_policy(name, body.policy.over, body.at_us, jump=body.jump)
    return respond(cloud_answer(name, cloud))
