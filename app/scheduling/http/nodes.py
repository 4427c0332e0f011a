"""Handlers for nodes and flavors."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from app.domain.flavors import check_flavor
from app.domain.times import to_datetime
from app.platform.http.bodies import read_body, read_query
from app.platform.http.page_forms import PageQuery, next_link, page_after
from app.platform.http.reached import reached
from app.platform.http.respond import respond
from app.scheduling.scheduler import Scheduler, find_node
from app.scheduling.slots import slots_of
from app.scheduling.wire.nodes import AtQuery, FlavorBody, NodeBody, flavor_answer, node_answer, resources_answer
from app.scheduling.wire.observed import ResizeBody
from tenure_client.forms.nodes import FlavorsAnswer, NodesAnswer, RemovalAnswer, ResizeAnswer, VictimAnswer


async def add_node(request: Request) -> Response:
    """Add a node at the end of the node order. Repeating the request changes nothing."""
    cloud = request.path_params["cloud"]
    body = await read_body(request, NodeBody)
    added = await reached(request, Scheduler).add_node(cloud, body.name, body.resources(), body.at_us)
    location = f"/v1/clouds/{cloud}/nodes/{body.name}"
    return respond(node_answer(added.node, added.free), 201, {"Location": location})


async def list_nodes(request: Request) -> Response:
    """List the cloud's nodes in node order with their free resources."""
    query = read_query(request, PageQuery)
    cloud = await reached(request, Scheduler).state(request.path_params["cloud"])
    nodes, marker = page_after(cloud.nodes_in_order(), query.marker, query.limit, lambda node: node.name)
    answers = [node_answer(node, cloud.free(node.name)) for node in nodes]
    return respond(NodesAnswer(nodes=answers, links=next_link(request, marker)))


async def show_node(request: Request) -> Response:
    """Show a node's capacity and its free resources."""
    cloud = await reached(request, Scheduler).state(request.path_params["cloud"])
    node = find_node(cloud, request.path_params["node"])
    return respond(node_answer(node, cloud.free(node.name)))


async def drain_node(request: Request) -> Response:
    """Drain a node: it takes no more placements, and its instances continue to run."""
    query = read_query(request, AtQuery)
    cloud, node = request.path_params["cloud"], request.path_params["node"]
    drained = await reached(request, Scheduler).drain_node(cloud, node, query.at_us)
    return respond(node_answer(drained.node, drained.free))


async def open_node(request: Request) -> Response:
    """Let a drained node take placements again."""
    query = read_query(request, AtQuery)
    cloud, node = request.path_params["cloud"], request.path_params["node"]
    opened = await reached(request, Scheduler).open_node(cloud, node, query.at_us)
    return respond(node_answer(opened.node, opened.free))


async def resize_node(request: Request) -> Response:
    """Let a node have another capacity. Spot instances that do not fit in it are evicted, the youngest first.

    Memory and disk that the request leaves out stay as they are; the answer tells the whole capacity. It is refused if
    on-demand instances use more. Repeating the request changes nothing.
    """
    body = await read_body(request, ResizeBody)
    cloud, node = request.path_params["cloud"], request.path_params["node"]
    capacity, deadlines = await reached(request, Scheduler).resize_node(cloud, node, body.over, body.at_us)
    return respond(ResizeAnswer(capacity=resources_answer(capacity), victims=_victims(deadlines)))


async def remove_node(request: Request) -> Response:
    """Remove a node without on-demand instances. Its spot instances are evicted; the answer names them."""
    query = read_query(request, AtQuery)
    cloud, node = request.path_params["cloud"], request.path_params["node"]
    deadlines = await reached(request, Scheduler).remove_node(cloud, node, query.at_us)
    return respond(RemovalAnswer(victims=_victims(deadlines)))


def _victims(deadlines: Mapping[str, int | None]) -> list[VictimAnswer]:
    return [
        VictimAnswer(id=victim, deadline=None if deadline_us is None else to_datetime(deadline_us))
        for victim, deadline_us in deadlines.items()
    ]


async def add_flavor(request: Request) -> Response:
    """Add a flavor. Flavors are never changed or removed. Repeating the request changes nothing."""
    cloud = request.path_params["cloud"]
    body = await read_body(request, FlavorBody)
    await reached(request, Scheduler).add_flavor(cloud, body.name, body.resources(), body.at_us)
    location = f"/v1/clouds/{cloud}/flavors/{body.name}"
    return await _answer_flavor(request, body.name, 201, {"Location": location})


async def list_flavors(request: Request) -> Response:
    """List the cloud's flavors in the order in which they were added, with the slots available now."""
    query = read_query(request, PageQuery)
    cloud = await reached(request, Scheduler).state(request.path_params["cloud"])
    flavors, marker = page_after([*cloud.flavors.values()], query.marker, query.limit, lambda flavor: flavor.name)
    slots = await slots_of(cloud, [flavor.name for flavor in flavors])
    answers = [flavor_answer(flavor, slots[flavor.name]) for flavor in flavors]
    return respond(FlavorsAnswer(flavors=answers, links=next_link(request, marker)))


async def show_flavor(request: Request) -> Response:
    """Show a flavor's resources and the slots available now."""
    return await _answer_flavor(request, request.path_params["flavor"])


async def _answer_flavor(
    request: Request, name: str, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    cloud = await reached(request, Scheduler).state(request.path_params["cloud"])
    check_flavor(cloud.flavors, name)
    return respond(flavor_answer(cloud.flavors[name], cloud.available_slots(name)), status, headers)
