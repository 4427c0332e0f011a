"""Events of instances: decisions on starts, and the ends of instances.

Evictions precede the start that caused them, so no node exceeds its capacity after any event. Their `cause_seq`
points forward to that start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event
from app.domain.quick import quick
from app.domain.values import Acceptable, Basis, EvictionReason, Market, Rejection
from app.domain.wanted import Wanted

_WANTED = {"since": 5, "description": "Of a start that takes what it can be promised."}
_ALLOWED = {"since": 7, "description": "The nodes that it was allowed to take; empty: all open ones."}
_PROJECT = {"since": 7, "description": "The project that it is for; null: not told."}
_USER = {"since": 7, "description": "The user of that project who asked for it; null: not told."}
_FIRST = {"since": 9, "description": "It was promised nothing, and is evicted before all others."}


@event("instance_started", subject="instance_id", group=Group.START, outcome="accepted")
@quick(kw_only=True)
class InstanceStarted:
    """A start was accepted. `probability` is the SLA that the request asked for, if any; `basis` is None for on-demand.

    Of a group, `nodes` are those of its members in order, and `node` is the first of them; else `nodes` is empty.
    `owner` is who asked for it; None: an admin, or a log of an earlier format.
    `deadline_us` is the victims' deadline under a grace period, else None. `ready_us` is the time when the instance's
    room is free; None: at once. With `wanted`, `lifetime_us` is the longest lifetime that could be promised, and
    `limited_by` is the reason why it is not longer; None: it is all that is wanted, or as far ahead as is promised.
    `allowed` are the nodes that its controller could use, if they left out an open one; else it is empty. `project` and
    `user` tell for whom it runs. No decision on a start depends on them, but callers of that project alone see the
    instance as theirs and may end it. An `observed` start was not placed: the instance
    ran there, and only spot instances on that node made room for it. What `goes_first` was promised nothing: it is
    evicted before all others. Where an older log format is in force it goes by its age, like any spot instance.
    """

    at_us: int
    instance_id: str
    market: Market
    flavor: str
    node: str
    lifetime_us: int | None = None
    probability: float | None = None
    basis: Basis | None = None
    victims: tuple[str, ...] = field(default=())
    deadline_us: int | None = None
    ready_us: int | None = None
    wanted: Wanted | None = field(default=None, metadata=_WANTED)
    limited_by: Rejection | None = field(
        default=None, metadata={"since": 5, "description": "Why a longer lifetime was not promised."}
    )
    nodes: tuple[str, ...] = field(default=(), metadata={"since": 5})
    owner: str | None = field(default=None, metadata={"since": 5})
    allowed: tuple[str, ...] = field(default=(), metadata=_ALLOWED)
    project: str | None = field(default=None, metadata=_PROJECT)
    user: str | None = field(default=None, metadata=_USER)
    observed: bool = field(
        default=False, metadata={"since": 7, "description": "It ran there before its controller told of it."}
    )
    goes_first: bool = field(default=False, metadata=_FIRST | {"only_tells": True})

    @property
    def count(self) -> int:
        """The number of machines: the members of a group, else 1."""
        return len(self.nodes) or 1

    @property
    def places(self) -> tuple[str, ...]:
        """The node of each machine."""
        return self.nodes or (self.node,)


@event("instance_rejected", subject="instance_id", group=Group.START, outcome="rejected")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceRejected:
    """A start was rejected. With `wanted`, `lifetime_us` is the least that it would have taken.

    `count` is the number of machines that it asked for. `acceptable` is told where the promise refused it.
    """

    at_us: int
    instance_id: str
    market: Market
    flavor: str
    reason: Rejection
    lifetime_us: int | None = None
    probability: float | None = None
    basis: Basis | None = None
    wanted: Wanted | None = field(default=None, metadata=_WANTED)
    owner: str | None = field(default=None, metadata={"since": 5})
    count: int = field(default=1, metadata={"since": 5})
    acceptable: Acceptable | None = field(default=None, metadata={"since": 5, "only_tells": True})
    allowed: tuple[str, ...] = field(default=(), metadata=_ALLOWED)
    project: str | None = field(default=None, metadata=_PROJECT)
    user: str | None = field(default=None, metadata=_USER)


@event("instance_stopped", subject="instance_id", group=Group.END, outcome="stopped")
@quick(kw_only=True)
class InstanceStopped:
    """The instance ended by itself. One that is `aborted` never ran, so it does not count as admitted."""

    at_us: int
    instance_id: str
    aborted: bool = field(
        default=False, metadata={"since": 7, "description": "It was accepted and never ran: its start came to nothing."}
    )


@event("instance_evicted", subject="instance_id", group=Group.END, outcome="evicted", urgent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceEvicted:
    """A spot instance was evicted to make room for the event at `cause_seq`: a start or a node's removal.

    A spot start evicts overrunning instances only.
    A drill makes room for nothing, so its eviction names itself as cause. The SLA counts a drill like a stop.
    """

    at_us: int
    instance_id: str
    reason: EvictionReason
    cause_seq: int = field(metadata={"description": "The event that it made room for, which follows; a drill's own."})


StartDecision = InstanceStarted | InstanceRejected
InstanceEvent = StartDecision | InstanceStopped | InstanceEvicted
