"""Rule 5 for owners: a start is refused by a quota exactly if the lines so far say so, with these figures.

This is written anew from docs/fairness.md and shares nothing with the service's own rule.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from math import floor

from app.domain.budgets import Book
from app.domain.times import DAY_US, HOUR_US
from app.domain.values import QuotaKind, QuotaUse, Rejection
from app.workbench.audit.books import HOUR_PARTS, PARTS, borne, holds, hours_of
from app.workbench.audit.findings import Rule, require
from app.workbench.audit.world import AuditedInstance, Limits, World
from app.workbench.logcsv import LogRow


class Others(Enum):
    """The part of an owner's use of a stratum's other books that is taken from the least that a book counts as having.

    It is all of it where it is more than the share of them; until decision 262 what was beyond, and until 258 nothing.
    """

    WHOLE = auto()
    BEYOND = auto()
    APART = auto()


def check_quota_change(world: World, row: LogRow) -> None:
    """Follow a quota of an owner's own."""
    require(row, Rule.FOLD, row.owner is not None, "it names no owner")
    if row.kind == "quota_set":
        world.quotas[row.owner or ""] = row.owner_cores, row.owner_share, row.overrun_share
    else:
        require(row, Rule.FOLD, row.owner in world.quotas, f"{row.owner} has no quota of its own")
        del world.quotas[row.owner or ""]


def check_quota(world: World, row: LogRow) -> None:
    """Check the quota that a spot decision records as its refusal, or that there is none."""
    if world.limits is None:
        return
    found = _by_any(row, lambda rule: _exceeded(world, row, rule))
    require(row, Rule.SLA, row.quota == found, f"it records the quota {row.quota}, but the log so far makes it {found}")
    is_named = row.reason in {Rejection.QUOTA_EXCEEDED, Rejection.OVERRUNNING}
    require(row, Rule.SLA, not is_named or found is not None, f"the reason is {row.reason!r}, but no quota refuses it")
    if found is not None:
        overruns = found.kind in {QuotaKind.OVERRUNNING, QuotaKind.OVERRAN}
        reason = Rejection.OVERRUNNING if overruns else Rejection.QUOTA_EXCEEDED
        require(row, Rule.SLA, row.reason == reason, f"the reason is {row.reason!r}, but its quota makes it {reason}")


def check_extension_quota(world: World, row: LogRow, instance: AuditedInstance) -> None:
    """Check the share that an extension's refusal records, or that there is none. It asks for what its rest adds."""
    owner, limits = instance.row.owner, world.limits
    if limits is None:
        return
    found = _by_any(
        row, lambda rule: None if owner is None else _exceeded_by_rest(world, row, instance, owner, limits, rule)
    )
    require(row, Rule.SLA, row.quota == found, f"it records the quota {row.quota}, but the log so far makes it {found}")
    is_named = (row.reason == Rejection.QUOTA_EXCEEDED) == (found is not None)
    require(row, Rule.SLA, is_named, f"the reason is {row.reason!r}, but its quota is {found}")


def _by_any(row: LogRow, use_by: Callable[[Others], QuotaUse | None]) -> QuotaUse | None:
    """Return the use of a quota that a line records if any rule makes it that, else what the newest makes it."""
    newest, *before = Others
    found = use_by(newest)
    return row.quota if found != row.quota and any(use_by(rule) == row.quota for rule in before) else found


def _exceeded_by_rest(
    world: World, row: LogRow, instance: AuditedInstance, owner: str, limits: Limits, rule: Others
) -> QuotaUse | None:
    of_policy = limits.cores, limits.share, limits.overrun_share
    _, share, _ = world.quotas.get(owner, of_policy)
    if share is None or row.book is None:
        return None
    start, booked = instance.row, instance.in_book
    left_us = max(start.at_us + (start.lifetime_us or 0) - row.at_us, 0)
    before = (booked.estimated_probability or 0.0) * left_us / max(booked.lifetime_us or 0, 1)
    after = row.estimated_probability or 0.0
    if row.book.evicted_core_hours is not None:
        before, after = hours_of(start, start.lifetime_us) * before, (row.book.core_hours or 0.0) * after
    own = [one for one in world.running.values() if one.is_spot and one.row.owner == owner]
    granted = _granted(world, row, row.book, own, share, rule)
    return _share(row, row.book, own, share, max(after - before, 0.0), granted)


def _exceeded(world: World, row: LogRow, rule: Others) -> QuotaUse | None:
    """Return the first quota that refuses a start."""
    if world.limits is None or row.owner is None:
        return None
    own = [one for one in world.running.values() if one.is_spot and one.row.owner == row.owner]
    limits = world.limits.cores, world.limits.share, world.limits.overrun_share
    cores, share, overrun_share = world.quotas.get(row.owner, limits)
    over, most = sum(_cores(one.row) for one in own if one.overruns(row.at_us)), world.limits.overrunning
    if most is not None and over > most:
        return QuotaUse(QuotaKind.OVERRUNNING, over, 0, most)
    overran = None if overrun_share is None else _overran(world, row, own, overrun_share)
    if overran is not None:
        return overran
    used = sum(_cores(one.row) for one in own)
    if cores is not None and used + _cores(row) > cores:
        return QuotaUse(QuotaKind.CORES, used, _cores(row), cores)
    if share is None or row.book is None:
        return None
    hours = 1.0 if row.book.evicted_core_hours is None else row.book.core_hours or 0.0
    granted = _granted(world, row, row.book, own, share, rule)
    return _share(row, row.book, own, share, hours * (row.estimated_probability or 0.0), granted)


def _overran(world: World, row: LogRow, own: list[AuditedInstance], share: float) -> QuotaUse | None:
    """Return what overran in this week and the three before, if it is more than an hour and the share of what kept."""
    first_us = (((row.at_us // DAY_US + 3) // 7 - 3) * 7 - 3) * DAY_US
    ended = [one for one in world.ended.get(row.owner or "", ()) if one[0] >= first_us]
    over_us = sum(over for _, _, over in ended) + sum(one.ran(row.at_us)[1] for one in own)
    allowed_us = share * sum(within for _, within, _ in ended) + HOUR_US
    used, allowed = over_us / HOUR_US, allowed_us / HOUR_US
    return QuotaUse(QuotaKind.OVERRAN, used, 0, allowed) if used > allowed else None


def _cores(row: LogRow) -> int:
    return row.machine_count * row.demand.cores


def _share(
    row: LogRow, book: Book, own: list[AuditedInstance], share: float, asked: float, granted: float
) -> QuotaUse | None:
    """Return the use of a book by an owner if, with the risk that is asked for, it is more than the share.

    `granted`: what the owner has of the least that a book counts as having, in the stratum's other books.
    """
    used, hours = _used(row, book, own, row.probability), book.core_hours or 0.0
    least = 1.0 if book.evicted_core_hours is None else book.mean_core_hours or hours
    left = book.earned - (book.evicted if book.evicted_core_hours is None else book.evicted_core_hours)
    allowed = max(share * left, share * least - granted, 0.0)
    return QuotaUse(QuotaKind.SHARE, used, asked, allowed) if used + asked > allowed else None


def _used(row: LogRow, book: Book, own: list[AuditedInstance], promised: float | None) -> float:
    """Return what an owner's instances bear in the book of a promise and of this book's stratum."""
    span = book.from_us, book.below_us
    there = [
        (one.in_book, hours_of(one.row, one.row.lifetime_us))
        for one in own
        if one.row.probability == promised and holds(span, one.in_book.lifetime_us or 0)
    ]
    if book.evicted_core_hours is None:
        return sum(floor(borne(one, row.at_us) * PARTS) for one, _ in there) / PARTS
    return sum(floor(borne(one, row.at_us) * each * HOUR_PARTS) for one, each in there) / HOUR_PARTS


def _granted(world: World, row: LogRow, book: Book, own: list[AuditedInstance], share: float, rule: Others) -> float:
    """Return what the owner uses of the stratum's other books where that is more than its share of them."""
    granted = 0.0
    for promised in sorted(world.entered):
        if promised != row.probability and rule is not Others.APART:
            sums = world.entered[promised].of((book.from_us, book.below_us))
            left = sums.earned - sums.evicted
            if book.evicted_core_hours is not None:
                left = sums.earned_core_hours - sums.evicted_core_hours
            used, covered = _used(row, book, own, promised), share * max(left, 0.0)
            whole = used if used > covered else 0.0
            granted += max(used - covered, 0.0) if rule is Others.BEYOND else whole
    return granted
