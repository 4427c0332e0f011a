"""Lifetimes that a spot start wants, where it takes what it can be promised."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Wanted:
    """The lifetime that a spot start wants, and the least that makes sense for it.

    It is promised the longest lifetime between the two that can be promised, and is extended later as far as it wants.
    """

    lifetime_us: int | None = field(
        default=None, metadata={"description": "The lifetime that it wants; null: as long as possible."}
    )
    min_lifetime_us: int | None = field(
        default=None, metadata={"description": "The least that makes sense for it; null: any."}
    )

    def exceeds(self, lifetime_us: int) -> bool:
        """Return True if it wants a longer lifetime than this one."""
        return self.lifetime_us is None or self.lifetime_us > lifetime_us
