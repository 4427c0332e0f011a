"""Handlers for hand-overs, evicted instances whose stop a controller confirms, and for moves in place of evictions."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from app.domain.errors import HandoverNotFound, InstanceNotFound, MarkerInvalid
from app.domain.values import InstanceStatus
from app.engine.cloud import Handover
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

_LOOKED_UP = 500
"""So many evictions are looked up at once to find those of a project."""


async def list_handovers(request: Request) -> Response:
    """List evictions under the cloud's grace period that no controller has confirmed, overdue ones included."""
    query = read_query(request, PageQuery)
    cloud = await reached(request, Scheduler).state(request.path_params["cloud"])
    known, project = cloud.known_handovers(), project_of(request)
    if project is None:
        page, marker = page_after(known, query.marker, query.limit, _name_of)
    else:
        page, marker = page_after(await _of_project(request, known, query, project), None, query.limit, _name_of)
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


async def _of_project(
    request: Request, known: Sequence[Handover], query: PageQuery, project: str
) -> Sequence[Handover]:
    """Return hand-overs of a project after the marker, all or more than a page takes. Few are looked up at once."""

    async def own(names: Sequence[str]) -> set[str]:
        return await reached(request, LogReads).of_project(request.path_params["cloud"], names, project)

    if query.marker is not None:
        known, _ = page_after(known, query.marker, len(known), _name_of)
        if not await own([query.marker]):
            raise MarkerInvalid(f"{query.marker!r} is not in this list")
    found: list[Handover] = []
    for at in range(0, len(known), _LOOKED_UP):
        some = known[at : at + _LOOKED_UP]
        names = await own([_name_of(handover) for handover in some])
        found += [handover for handover in some if _name_of(handover) in names]
        if len(found) > query.limit:
            break
    return found


def _name_of(handover: Handover) -> str:
    return handover.instance_id


async def _check_evicted(request: Request, cloud: str, instance: str) -> None:
    try:
        found = await reached(request, LogReads).instance(cloud, instance)
    except InstanceNotFound:
        found = None
    if found is None or found.status is not InstanceStatus.EVICTED:
        raise HandoverNotFound(f"instance {instance!r} was not evicted")
