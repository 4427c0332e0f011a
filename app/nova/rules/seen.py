"""The values of the daemon's rules: a server as Nova shows it, its life as Tenure knows it, and steps to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.domain.values import Resources
from app.nova.rules.lives import Life


class Presence(StrEnum):
    """The place of a server: on a node, on its way to one or between two, or nowhere."""

    HOLDS = "holds"
    MOVES = "moves"
    BUILDS = "builds"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Server:
    """A server of Nova, in Nova's words but for the size. `node` is the hypervisor's name, `updated` Nova's time.

    `is_at_deletion` tells of one that is being deleted whether its node has begun with it; None: nobody has asked.
    """

    id: str
    status: str
    task: str | None
    node: str | None
    plain_flavor: str
    demand: Resources | None
    is_spot: bool
    created_at: datetime
    updated_at: datetime
    launched_at: datetime | None = None
    project: str | None = None
    user: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    is_at_deletion: bool | None = None


@dataclass(frozen=True, slots=True)
class KnownLife:
    """The newest life of a server as Tenure knows it. `status` is Tenure's word, `demand` that of its flavor.

    `leaves_by` is the deadline of an eviction that nobody has confirmed; `deadline` the end of its promise.
    `ended_at` is None while it runs.
    """

    life: Life
    status: str
    is_spot: bool
    node: str | None
    flavor: str
    demand: Resources | None
    at: datetime
    deadline: datetime | None = None
    probability: float | None = None
    epoch: int | None = None
    leaves_by: datetime | None = None
    ended_at: datetime | None = None
    is_observed: bool = False

    @property
    def runs(self) -> bool:
        """True if Tenure takes it for running."""
        return self.status == "running"


class StepKind(StrEnum):
    """The kinds of steps: those up to `move` are told to Tenure, the others are done in Nova.

    `clear` is the deletion of a spot server that nothing was promised to.
    """

    STOP = "stop"
    ABORT = "abort"
    CONFIRM = "confirm"
    OBSERVE = "observe"
    MOVE = "move"
    MARK = "mark"
    UNMARK = "unmark"
    TAG = "tag"
    UNTAG = "untag"
    DELETE = "delete"
    CLEAR = "clear"
    SHELVE = "shelve"
    OFFLOAD = "offload"
    RESET = "reset"
    FORCE = "force"


@dataclass(frozen=True, slots=True)
class ServerStep:
    """Something to be done, safe to be done twice. `why` is for people; `marks` are metadata to set or to remove."""

    kind: StepKind
    why: str
    life: Life | None = None
    marks: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerVerdict:
    """The steps about one server in their order, and in how many seconds to look at it again; None: when it changes.

    If it `asks`, it is to be decided again by a server that tells `is_at_deletion`.
    """

    steps: tuple[ServerStep, ...] = ()
    again_s: float | None = None
    asks: bool = False
