"""Nodes and flavors: what there is room on, and what asks for room."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from pydantic import Field

from app.api.wire.fields import AT, Answer, Body, Cores, Name, Query, Size, Time
from app.api.wire.paging import Link
from app.domain.values import NodeStatus, Resources
from app.engine.cloud import Cloud, Flavor, Node


class AtQuery(Query):
    """The time of a request without a body."""

    at_us: Time | None = Field(None, alias="at", description=AT)


class NodeBody(Body):
    """A new node."""

    name: Name
    cores: Cores
    memory_mib: Size = Field(0, description="0: memory is not counted on this node.")
    disk_gib: Size = Field(0, description="0: disk is not counted on this node.")
    at_us: Time | None = Field(None, alias="at", description=AT)

    def resources(self) -> Resources:
        return Resources(self.cores, self.memory_mib, self.disk_gib)


class FlavorBody(Body):
    """A new flavor."""

    name: Name
    cores: Cores
    memory_mib: Size = Field(0, description="0: it asks for no memory.")
    disk_gib: Size = Field(0, description="0: it asks for no disk.")
    at_us: Time | None = Field(None, alias="at", description=AT)

    def resources(self) -> Resources:
        return Resources(self.cores, self.memory_mib, self.disk_gib)


@dataclass(slots=True, kw_only=True)
class ResourcesAnswer(Answer):
    cores: int
    memory_mib: int
    disk_gib: int


@dataclass(slots=True, kw_only=True)
class NodeAnswer(Answer):
    name: str
    status: NodeStatus
    capacity: ResourcesAnswer
    free: Annotated[ResourcesAnswer, Field(description="What no instance holds; 0 of what the node does not count.")]


@dataclass(slots=True, kw_only=True)
class NodesAnswer(Answer):
    nodes: Annotated[list[NodeAnswer], Field(description="In node order: placement takes the first that fits.")]
    links: list[Link]


@dataclass(slots=True, kw_only=True)
class VictimAnswer(Answer):
    id: str
    deadline: Annotated[
        datetime | None, Field(description="Until when it may go on running; null where the cloud has no grace period.")
    ] = None


@dataclass(slots=True, kw_only=True)
class RemovalAnswer(Answer):
    """A node was removed; the spot instances that ran on it were evicted, youngest first."""

    victims: list[VictimAnswer]


@dataclass(slots=True, kw_only=True)
class FlavorAnswer(Answer):
    name: str
    cores: int
    memory_mib: int
    disk_gib: int
    available_slots: Annotated[int, Field(description="How many more instances of it fit now.")]


@dataclass(slots=True, kw_only=True)
class FlavorsAnswer(Answer):
    flavors: list[FlavorAnswer]
    links: list[Link]


def node_answer(cloud: Cloud, node: Node) -> NodeAnswer:
    """The wire form of a node, and of what is free on it now."""
    return NodeAnswer(
        name=node.name,
        status=node.status,
        capacity=resources_answer(node.capacity),
        free=resources_answer(cloud.free(node.name)),
    )


def flavor_answer(cloud: Cloud, flavor: Flavor) -> FlavorAnswer:
    """The wire form of a flavor, and its slots available now."""
    cores, memory_mib, disk_gib = flavor.resources
    return FlavorAnswer(
        name=flavor.name,
        cores=cores,
        memory_mib=memory_mib,
        disk_gib=disk_gib,
        available_slots=cloud.available_slots(flavor.name),
    )


def resources_answer(resources: Resources) -> ResourcesAnswer:
    cores, memory_mib, disk_gib = resources
    return ResourcesAnswer(cores=cores, memory_mib=memory_mib, disk_gib=disk_gib)
