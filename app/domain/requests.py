"""The requests of controllers."""

from __future__ import annotations

from dataclasses import dataclass

from app.domain.quick import quick
from app.domain.values import Market
from app.domain.wanted import Wanted

MOST_MEMBERS = 256
"""The number of members that a group may have: one event tells the node of each."""
MOST_ALLOWED = 1000
"""The number of nodes that a start may be restricted to: its event names those that there are."""


@quick()
class StartRequest:
    """Start an instance. `at_us` is the request's own time on a cloud with an external clock, else None.

    `eviction_probability` is the request's own SLA; None takes the cloud's. Spot starts must declare a lifetime, or say
    with `wanted` which ones they take. `owner` is the caller, by what the names of its tokens have in common; None
    stands for admins, who may use any id. `count` is the number of members of a group, which are placed, promised and
    evicted together; only spot starts may have more than 1. `nodes` are the only ones that it may take; none: any. They
    are what the controller can use now, and no part of what is asked. `project` and `user` tell for whom it is:
    callers of that project may use it. An `observed` start is not asked for: its controller tells of it. What a
    controller asks `for_project` counts for that project instead of the controller.
    """

    instance_id: str
    market: Market
    flavor: str
    lifetime_us: int | None = None
    eviction_probability: float | None = None
    at_us: int | None = None
    owner: str | None = None
    wanted: Wanted | None = None
    count: int = 1
    nodes: tuple[str, ...] = ()
    project: str | None = None
    user: str | None = None
    observed: bool = False
    for_project: bool = False

    @property
    def account(self) -> str | None:
        """Return the owner whose quotas hold for the start, as the log will name it."""
        return self.project if self.for_project and self.project is not None else self.owner


@quick()
class StopRequest:
    """Stop an instance. Stopping one that has ended changes nothing. `owner` is that of `StartRequest`."""

    instance_id: str
    at_us: int | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class ExtendRequest:
    """Promise a running spot instance a longer lifetime, counted from its start. `owner` is that of `StartRequest`."""

    instance_id: str
    lifetime_us: int
    at_us: int | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """A running instance runs on this node now. A controller says so of anybody's instance, so there is no owner."""

    instance_id: str
    node: str
    at_us: int | None = None

    @property
    def owner(self) -> None:
        """Return None: any id may be named."""


@dataclass(frozen=True, slots=True)
class ObserveRequest:
    """An on-demand instance of this flavor runs on this node, as its controller sees, whether it was placed or not."""

    instance_id: str
    flavor: str
    node: str
    at_us: int | None = None
    project: str | None = None
    user: str | None = None

    @property
    def owner(self) -> None:
        """Return None: any id may be named."""


@dataclass(frozen=True, slots=True)
class AbortRequest:
    """An instance that was accepted never ran and never will, as its controller says."""

    instance_id: str
    at_us: int | None = None

    @property
    def owner(self) -> None:
        """Return None: any id may be named."""


Driven = StartRequest | StopRequest | ExtendRequest | MoveRequest
"""The operations of a recorded workload when it is decided anew: what is observed there is a start or a move."""
Operation = Driven | ObserveRequest | AbortRequest
