"""Events of moves: a controller has put a running instance on another node."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event


@event("instance_moved", since=5, subject="instance_id", group=Group.MOVE)
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMoved:
    """A running instance runs on another node now, as its controller says. It keeps its promise, age and rank.

    With `as_flavor` it is an on-demand instance that was observed there: it has that flavor from here on, on another
    node or on the same, and spot instances on the node made room for it.
    """

    at_us: int
    instance_id: str
    node: str = field(metadata={"description": "Where it runs from here on."})
    former_node: str = field(metadata={"description": "Where it ran before."})
    as_flavor: str | None = field(
        default=None, metadata={"since": 7, "description": "Of an observed one: the flavor that it has; else null."}
    )
