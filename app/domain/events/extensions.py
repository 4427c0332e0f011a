"""Events of longer lifetimes: decisions on the extension of a running spot instance's promise."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import Group, event
from app.domain.values import Basis, Rejection

_LIFETIME = {"description": "The new lifetime, counted from the instance's start."}
_FORMER = {"description": "The lifetime that the instance had before, counted from its start."}
_TOTAL = {"description": "The risk of an eviction in the new lifetime: what its past has borne, and the rest."}
_DEADLINE = {"description": "The end of the lifetime that is promised from here on."}


@event("instance_extended", since=4, subject="instance_id", group=Group.EXTENSION, outcome="extended")
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceExtended:
    """A running spot instance was promised a longer lifetime. Its eviction probability stays that of its start.

    `basis` is what the promise for the rest of the lifetime rests on; its `slots` are those that the instance sees.
    `total_risk` is None if nothing was promised. `is_automatic`: the service did it, because the start wanted a longer
    lifetime than it was promised; `limited_by` is then the reason why it is not longer still.
    """

    at_us: int
    instance_id: str
    lifetime_us: int = field(metadata=_LIFETIME)
    former_lifetime_us: int = field(metadata=_FORMER)
    deadline_us: int = field(metadata=_DEADLINE)
    basis: Basis
    total_risk: float | None = field(default=None, metadata=_TOTAL)
    is_automatic: bool = field(
        default=False, metadata={"since": 5, "description": "True: the service did it, for what the start wants."}
    )
    limited_by: Rejection | None = field(
        default=None, metadata={"since": 5, "description": "Why an automatic one is not longer."}
    )


@event(
    "extension_rejected",
    since=4,
    subject="instance_id",
    group=Group.EXTENSION,
    outcome="extension_rejected",
    decisive=False,
)
@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionRejected:
    """A longer lifetime was refused. The instance keeps the promise that it has."""

    at_us: int
    instance_id: str
    lifetime_us: int = field(metadata=_LIFETIME)
    former_lifetime_us: int = field(metadata=_FORMER)
    deadline_us: int = field(metadata=_DEADLINE)
    reason: Rejection
    basis: Basis
    total_risk: float | None = field(default=None, metadata=_TOTAL)


ExtensionDecision = InstanceExtended | ExtensionRejected
