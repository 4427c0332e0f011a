"""Handlers for owners and their quotas."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.platform.http.bodies import read_body, read_query
from app.platform.http.long_lists import first_answers, marker_after
from app.platform.http.page_forms import PageQuery, next_link
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.owners import owners_now, remove_quota, set_quota
from app.scheduling.scheduler import Scheduler
from app.scheduling.wire.nodes import AtQuery
from app.scheduling.wire.owners import QuotaBody, owner_answer
from tenure_client.forms.owners import OwnersAnswer


async def list_owners(request: Request) -> Response:
    """List who has started spot instances, by name, with what they come to, how they overran, and their quotas.

    An owner is what the names of its tokens have up to their first dot. Instances that admins started stand last, under
    no name.
    """
    query = read_query(request, PageQuery)
    moment = await owners_now(reached(request, Scheduler), request.path_params["cloud"])
    names, marker = moment.after(query.marker, query.limit)
    owners = await first_answers(names, lambda name: owner_answer(moment.standing(name)))
    marker = marker_after(names, len(owners), str, marker)
    return respond(OwnersAnswer(owners=owners, links=next_link(request, marker)))


async def set_owner_quota(request: Request) -> Response:
    """Give an owner a quota of its own, in place of the policy's. Repeating the request changes nothing.

    What runs stays; the quota decides on the owner's next starts.
    """
    body, path = await read_body(request, QuotaBody), request.path_params
    standing = await set_quota(reached(request, Scheduler), path["cloud"], path["owner"], body.quota(), body.at_us)
    return respond(owner_answer(standing))


async def remove_owner_quota(request: Request) -> Response:
    """Let the policy's quota hold for an owner again. Nothing happens if it has none of its own."""
    path, query = request.path_params, read_query(request, AtQuery)
    await remove_quota(reached(request, Scheduler), path["cloud"], path["owner"], query.at_us)
    return Response(status_code=204)
