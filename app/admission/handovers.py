"""The bound on unconfirmed evictions by starts of one owner, which leaves places for those of others."""

from __future__ import annotations

from collections.abc import Sequence

from app.domain.errors import TooManyEvictions
from app.engine.cloud import Cloud

HANDOVERS_OF_OWNER = 10_000
"""A fifth of those that a cloud may have. Each of them holds a place until it is confirmed, or long overdue."""


def check_unconfirmed(cloud: Cloud, victims: Sequence[str], owner: str | None) -> None:
    """Raise TooManyEvictions if a start of this owner would leave too many of its evictions unconfirmed.

    Admins have no owner. What a controller observes has happened already and is not refused for this.
    """
    if owner is None or not victims or not cloud.policy.grace_us:
        return
    count = cloud.handovers_of(owner)
    if count + len(victims) > HANDOVERS_OF_OWNER:
        told = f"{count} evictions by starts of {owner!r} are unconfirmed"
        raise TooManyEvictions(f"{told}, and {HANDOVERS_OF_OWNER} may be of one owner")
