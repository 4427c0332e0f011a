"""Events of owners: quotas that are theirs alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.domain.events.kinds import event


@event("quota_set", subject="owner", since=5)
@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaSet:
    """An owner has a quota of its own in place of the policy's. None: no limit."""

    at_us: int
    owner: str
    cores: int | None = None
    share: float | None = None
    overrun_share: float | None = field(default=None, metadata={"since": 5})


@event("quota_removed", subject="owner", since=5)
@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaRemoved:
    """The policy's quota holds for the owner again."""

    at_us: int
    owner: str


QuotaEvent = QuotaSet | QuotaRemoved
