"""The endpoints of nodes and flavors with their handlers."""

from __future__ import annotations

from app.domain import errors
from app.domain.values import Role
from app.platform.http.page_forms import PageQuery
from app.platform.http.serving import Served
from app.scheduling.http import nodes
from app.scheduling.wire import nodes as node_wire
from app.scheduling.wire import observed as observed_wire
from tenure_client import endpoints

_TIME = (errors.TimeUnexpected, errors.TimeBackwards, errors.TimeAhead)
_WRITE = (errors.LogContended, errors.Overloaded)

NODES = (
    Served(
        endpoints.ADD_NODE,
        nodes.add_node,
        role=Role.ADMIN,
        body=node_wire.NodeBody,
        errors=(*_TIME, *_WRITE, errors.NodeExists, errors.TooManyNodes),
        example={"name": "node-1", "cores": 32, "memory_mib": 131072},
    ),
    Served(endpoints.NODES, nodes.list_nodes, role=Role.READER, query=PageQuery, errors=(errors.MarkerInvalid,)),
    Served(endpoints.NODE, nodes.show_node, role=Role.READER),
    Served(
        endpoints.REMOVE_NODE,
        nodes.remove_node,
        role=Role.ADMIN,
        query=node_wire.AtQuery,
        errors=(*_TIME, *_WRITE, errors.NodeNotEmpty, errors.TooManyEvictions),
    ),
    Served(
        endpoints.RESIZE_NODE,
        nodes.resize_node,
        role=Role.ADMIN,
        body=observed_wire.ResizeBody,
        errors=(*_TIME, *_WRITE, errors.NodeTooSmall, errors.TooManyEvictions, errors.FormatNotInForce),
        example={"cores": 64, "memory_mib": 262144},
    ),
    Served(endpoints.DRAIN_NODE, nodes.drain_node, role=Role.ADMIN, query=node_wire.AtQuery, errors=(*_TIME, *_WRITE)),
    Served(endpoints.OPEN_NODE, nodes.open_node, role=Role.ADMIN, query=node_wire.AtQuery, errors=(*_TIME, *_WRITE)),
    Served(
        endpoints.ADD_FLAVOR,
        nodes.add_flavor,
        role=Role.ADMIN,
        body=node_wire.FlavorBody,
        errors=(*_TIME, *_WRITE, errors.FlavorExists, errors.TooManyFlavors),
        example={"name": "small", "cores": 1, "memory_mib": 2048},
    ),
    Served(
        endpoints.FLAVORS, nodes.list_flavors, role=Role.PROJECT_READER, query=PageQuery, errors=(errors.MarkerInvalid,)
    ),
    Served(endpoints.FLAVOR, nodes.show_flavor, role=Role.PROJECT_READER),
)
