"""Words for a quota that refuses a start."""

from __future__ import annotations

from app.domain.budgets import Book, BudgetUnit
from app.domain.events import InstanceStarted
from app.domain.numbers import number_text
from app.domain.values import EvictionReason, Market, QuotaKind, QuotaUse
from app.scheduling.rules.extensions import unit_of


def refused_by_quota(owner: str | None, use: QuotaUse, book: Book | None = None) -> str:
    """Say as half a sentence what the owner used, what the start asked for, and what was allowed.

    `book`: the one that a share is of.
    """
    used, asked, allowed = (number_text(one) for one in (use.used, use.asked, use.allowed))
    match use.kind:
        case QuotaKind.OVERRUNNING:
            return (
                f"instances of its owner, {owner}, overran their declared lifetimes on {used} cores, and the policy "
                f"allows {allowed}: it starts no more until they end"
            )
        case QuotaKind.OVERRAN:
            return (
                f"in the last four weeks instances of its owner, {owner}, overran their declared lifetimes by {used} "
                f"core-hours, and for what they ran within them {allowed} are allowed: it should declare how long its "
                "instances run"
            )
        case QuotaKind.CORES:
            return (
                f"the spot instances of its owner, {owner}, had {used} cores, this one asked for {asked}, and the "
                f"quota allows {allowed}"
            )
        case QuotaKind.SHARE:
            return (
                f"in the book of its stratum the instances of its owner, {owner}, bore {used} {unit_of(book)}, this "
                f"one would have added {asked}, and the owner's share allows {allowed}{_shared(book)}"
            )


def _shared(book: Book | None) -> str:
    """Say what an owner has a share of, as the end of a sentence."""
    if book is None:
        return ""
    usual = "one eviction" if book.unit is BudgetUnit.INSTANCES else "a usual instance's core-hours"
    return (
        f": of the {number_text(book.left)} that the book had left, or of {usual} where that is more, "
        "less what it has of that under other promises"
    )


def made_room_for(start: InstanceStarted, reason: EvictionReason) -> str:
    """Name the instance that an eviction made room for."""
    market = "spot" if start.market is Market.SPOT else "on-demand"
    over = ", which takes the room of those who overrun," if reason is EvictionReason.SPOT_START else ","
    return f"the {market} instance {start.instance_id}{over}"
