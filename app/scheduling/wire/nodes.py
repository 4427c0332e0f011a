"""Bodies and answers of nodes and flavors."""

from __future__ import annotations

from pydantic import Field

from app.domain.values import Resources
from app.engine.cloud import Flavor, Node
from app.platform.http.fields import AT, AT_OR_NOW, Body, Cores, Name, Query, Size, Time
from tenure_client.forms.answer import answer_of
from tenure_client.forms.nodes import FlavorAnswer, NodeAnswer, ResourcesAnswer


class AtQuery(Query):
    """The time of a request without a body."""

    at_us: Time | None = Field(None, description=AT)


class NodeBody(Body):
    """A new node."""

    name: Name
    cores: Cores
    memory_mib: Size = Field(0, description="0: memory is not counted on this node.")
    disk_gib: Size = Field(0, description="0: disk is not counted on this node.")
    at_us: Time | None = Field(None, description=AT_OR_NOW)

    def resources(self) -> Resources:
        return Resources(self.cores, self.memory_mib, self.disk_gib)


class FlavorBody(Body):
    """A new flavor."""

    name: Name
    cores: Cores
    memory_mib: Size = Field(0, description="0: the flavor asks for no memory.")
    disk_gib: Size = Field(0, description="0: the flavor asks for no disk.")
    at_us: Time | None = Field(None, description=AT_OR_NOW)

    def resources(self) -> Resources:
        return Resources(self.cores, self.memory_mib, self.disk_gib)


def node_answer(node: Node, free: Resources) -> NodeAnswer:
    """Return the wire form of a node and of its free resources."""
    return answer_of(NodeAnswer, node, capacity=resources_answer(node.capacity), free=resources_answer(free))


def flavor_answer(flavor: Flavor, slots: int) -> FlavorAnswer:
    """Return the wire form of a flavor with its available slots."""
    return answer_of(FlavorAnswer, flavor.resources, name=flavor.name, available_slots=slots)


def resources_answer(resources: Resources) -> ResourcesAnswer:
    return answer_of(ResourcesAnswer, resources)
