"""Quotas: what one owner may have of a cloud's spare capacity, so that none starves or indebts the others.

A quota is the policy's, or the owner's own in its place (engine.cloud.owners). Starts without an owner, those of
admins, have none. Everything is decided from the folded state, so any process decides alike.
"""

from __future__ import annotations

from app.domain.budgets import Book, BudgetUnit
from app.domain.requests import StartRequest
from app.domain.strata import stratum_index
from app.domain.times import HOUR_US
from app.domain.values import Basis, Policy, QuotaKind, QuotaUse, Rejection
from app.engine.books import core_hours_of
from app.engine.cloud import Cloud, OwnerAccount, Quota, Running

LEAST_LEFT = 1.0
"""A book that has less left counts as if it had one usual eviction left: else no owner could be the first in it."""
TOLERATED_US = HOUR_US
"""An owner's instances may overrun so many core-microseconds whatever they ran: a new owner has nothing to show yet."""
REFUSALS = {
    QuotaKind.OVERRUNNING: Rejection.OVERRUNNING,
    QuotaKind.OVERRAN: Rejection.OVERRUNNING,
    QuotaKind.CORES: Rejection.QUOTA_EXCEEDED,
    QuotaKind.SHARE: Rejection.QUOTA_EXCEEDED,
}


def quota_of(cloud: Cloud, owner: str) -> Quota:
    """Return the quota in force for an owner."""
    return cloud.quotas.get(owner) or quota_of_policy(cloud.policy)


def quota_of_policy(policy: Policy) -> Quota:
    """Return the quota of owners that have none of their own."""
    return Quota(policy.owner_cores, policy.owner_share, policy.overrun_share)


def exceeded_by(cloud: Cloud, request: StartRequest, basis: Basis, at_us: int) -> QuotaUse | None:
    """Return the first quota that refuses a spot start: overrunning cores, what overran lately, running cores, the
    share of its book.
    """
    owner = request.account
    if owner is None:
        return None
    use = _overrunning(cloud, owner, at_us) or _overran(cloud, owner, at_us) or _cores(cloud, owner, request)
    if use is None and basis.book is not None and basis.probability is not None:
        asked = basis.book.weight * (basis.estimated_probability or 0.0)
        use = exceeded_share(cloud, owner, basis.probability, basis.book, asked, at_us)
    return use


def has_overrun(cloud: Cloud, request: StartRequest, at_us: int) -> bool:
    """Return True if the owner's instances overran too much lately, those included that the start would displace."""
    return request.account is not None and _overran(cloud, request.account, at_us) is not None


def exceeded_by_extension(cloud: Cloud, running: Running, basis: Basis, at_us: int) -> QuotaUse | None:
    """Return the share that refuses a longer lifetime, or None. It asks for the risk that the rest adds."""
    if running.owner is None or basis.book is None or basis.probability is None:
        return None
    left_us, before = max(running.deadline_us - at_us, 0), 1.0
    if basis.book.unit is BudgetUnit.CORE_HOURS:
        before = core_hours_of(running.count * cloud.flavors[running.flavor].resources.cores, running.lifetime_us)
    present = before * ((running.risk or 0.0) * left_us / max(running.book_lifetime_us, 1))
    asked = max(basis.book.weight * (basis.estimated_probability or 0.0) - present, 0.0)
    return exceeded_share(cloud, running.owner, basis.probability, basis.book, asked, at_us)


def _overrunning(cloud: Cloud, owner: str, at_us: int) -> QuotaUse | None:
    allowed = cloud.policy.overrunning_cores
    if allowed is None:
        return None
    used = cloud.overrunning_cores(owner, at_us)
    return QuotaUse(QuotaKind.OVERRUNNING, used, 0, allowed) if used > allowed else None


def _overran(cloud: Cloud, owner: str, at_us: int) -> QuotaUse | None:
    share = quota_of(cloud, owner).overrun_share
    if share is None:
        return None
    lately = cloud.overrun_lately(owner, at_us)
    used, allowed = lately.overrun_core_us / HOUR_US, allowed_overrun_us(share, lately.core_us) / HOUR_US
    return QuotaUse(QuotaKind.OVERRAN, used, 0, allowed) if used > allowed else None


def allowed_overrun_us(share: float, core_us: int) -> float:
    """Return the core-microseconds that instances may overrun for those that ended ones ran within their lifetimes."""
    return share * core_us + TOLERATED_US


def _cores(cloud: Cloud, owner: str, request: StartRequest) -> QuotaUse | None:
    allowed = quota_of(cloud, owner).cores
    used, asked = (
        cloud.owners.get(owner, OwnerAccount()).cores,
        request.count * cloud.flavors[request.flavor].resources.cores,
    )
    exceeds = allowed is not None and used + asked > allowed
    return QuotaUse(QuotaKind.CORES, used, asked, allowed or 0) if exceeds else None


def exceeded_share(
    cloud: Cloud, owner: str, probability: float, book: Book, asked: float, at_us: int
) -> QuotaUse | None:
    """Return the owner's share of a book if the risk asked for exceeds it, else None.

    What it uses of the stratum's other books is taken from the least that this one counts as having, wherever it is
    more than its share of what those have left: else each promise that differs in the last digit would have as much.
    """
    share = quota_of(cloud, owner).share
    if share is None:
        return None
    stratum = stratum_index(book.from_us, cloud.policy.strata_us)
    lefts = cloud.left_in(stratum) | {probability: book.left}
    promises, by_core_hours = tuple(sorted(lefts)), book.unit is BudgetUnit.CORE_HOURS
    borne = cloud.borne_by(owner, promises, stratum, at_us, by_core_hours=by_core_hours)
    used, granted = 0.0, 0.0
    for promise, bears in zip(promises, borne, strict=True):
        if promise == probability:
            used = bears
        elif bears > share * max(lefts[promise], 0.0):
            granted += bears
    allowed = max(share * book.left, share * (LEAST_LEFT * book.usual_weight) - granted, 0.0)
    return QuotaUse(QuotaKind.SHARE, used, asked, allowed) if used + asked > allowed else None
