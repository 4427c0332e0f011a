"""Handlers for hand-overs, evicted instances whose stop a controller confirms, and for moves in place of evictions."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import HandoverNotFound, InstanceNotFound
from app.domain.values import InstanceStatus
from app.notices.wire import handover_answer, proposals_answer
from app.platform.http.auth import project_of
from app.platform.http.bodies import read_query
from app.platform.http.page_forms import PageQuery, next_link, page_after
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.log_reads import LogReads
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import outlooks_beside
from app.scheduling.wire.nodes import AtQuery
from tenure_client.forms.instances import HandoversAnswer


async def list_handovers(request: Request) -> Response:
    """List evictions under the cloud's grace period that no controller has confirmed, overdue ones included."""
    query = read_query(request, PageQuery)
    cloud = await reached(request, Scheduler).state(request.path_params["cloud"])
    known, project = cloud.known_handovers(), project_of(request)
    if project is not None:
        names = [handover.instance_id for handover in known]
        own = await reached(request, LogReads).of_project(request.path_params["cloud"], names, project)
        known = tuple(handover for handover in known if handover.instance_id in own)
    page, marker = page_after(known, query.marker, query.limit, lambda handover: handover.instance_id)
    answers = [handover_answer(handover) for handover in page]
    return respond(HandoversAnswer(handovers=answers, links=next_link(request, marker)))


async def confirm_handover(request: Request) -> Response:
    """Confirm that an evicted instance is stopped, so that its room is free. Repeating it changes nothing."""
    at_us = read_query(request, AtQuery).at_us if request.scope["query_string"] else None
    cloud, instance = request.path_params["cloud"], request.path_params["handover"]
    if not await reached(request, Scheduler).confirm(cloud, instance, at_us):
        await _check_evicted(request, cloud, instance)
    return Response(status_code=204)


async def list_proposals(request: Request) -> Response:
    """List moves that would keep the next on-demand starts from evicting spot instances. Nothing is changed.

    For each flavor without a slot: the instances that an on-demand start of it would evict now, and where each has room
    instead. A controller that has moved them all says so; a start of the flavor then evicts nobody.
    """
    name = request.path_params["cloud"]
    cloud, now_us = await reached(request, Scheduler).present(name)
    seq, find = cloud.seq, cloud.proposals_now(now_us)
    found = await outlooks_beside(cloud, [*cloud.flavors], find)
    return respond(proposals_answer(found, now_us, seq))


async def _check_evicted(request: Request, cloud: str, instance: str) -> None:
    try:
        found = await reached(request, LogReads).instance(cloud, instance)
    except InstanceNotFound:
        found = None
    if found is None or found.status is not InstanceStatus.EVICTED:
        raise HandoverNotFound(f"instance {instance!r} was not evicted")
