"""Answers on nodes and flavors."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Moment
from tenure_client.forms.words import NodeStatusWord


class ResourcesAnswer(Answer, kw_only=True):
    cores: int
    memory_mib: int
    disk_gib: int


class NodeAnswer(Answer, kw_only=True):
    name: str
    status: NodeStatusWord
    capacity: ResourcesAnswer
    free: Annotated[ResourcesAnswer, Meta(description="Free resources; 0 for a resource that the node does not count.")]


class NodesAnswer(Answer, kw_only=True):
    nodes: Annotated[list[NodeAnswer], Meta(description="In node order. Placement takes the first node with room.")]
    links: list[Link]


class VictimAnswer(Answer, kw_only=True):
    id: str
    deadline: Annotated[
        Moment | None, Meta(description="The time until which it may go on running; null without a grace period.")
    ] = None


class RemovalAnswer(Answer, kw_only=True):
    """A node was removed; the spot instances that ran on it were evicted, youngest first."""

    victims: list[VictimAnswer]


class ResizeAnswer(Answer, kw_only=True):
    """A node has this capacity now; the spot instances that did not fit in it were evicted, youngest first."""

    capacity: ResourcesAnswer
    victims: list[VictimAnswer]


class FlavorAnswer(Answer, kw_only=True):
    name: str
    cores: int
    memory_mib: int
    disk_gib: int
    available_slots: Annotated[int, Meta(description="The number of instances of this flavor that fit now.")]


class FlavorsAnswer(Answer, kw_only=True):
    flavors: list[FlavorAnswer]
    links: list[Link]
