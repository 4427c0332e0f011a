"""Owners: what their spot instances come to, how they overrun, and the quotas that are their own."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice

from app.admission.outcomes import Changed
from app.admission.quota import allowed_overrun_us, quota_of_policy
from app.domain.errors import MarkerInvalid, OwnerNotFound, TooManyQuotas
from app.domain.events import Event, QuotaRemoved, QuotaSet
from app.domain.values import OWNER_PATTERN
from app.engine.cloud import NOBODY, Cloud, Overrun, OwnerAccount, Quota
from app.platform.turns import in_turns
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import beside, has_few_rows

MOST_QUOTAS = 1000
"""The number of owners with quotas of their own in a cloud. All of its state is kept in memory."""
_AT_ONCE = 500
"""So many owners are looked at between turns."""
_NAME = re.compile(OWNER_PATTERN)


@dataclass(frozen=True, slots=True)
class OwnerStanding:
    """An owner's account at a moment. `name` is None for the instances of admins, which have no quota.

    `overrunning`, `overrunning_cores` and `overrunning_core_us` tell of those that run now; the account of the others.
    `ended`: of those that ended in the newest weeks.
    """

    name: str | None
    account: OwnerAccount
    overrunning: int
    overrunning_cores: int
    overrunning_core_us: int
    ended: Overrun
    quota: Quota
    has_own_quota: bool

    @property
    def overran(self) -> int:
        """The number that ran beyond their declared lifetime, or do."""
        return self.account.overran + self.overrunning

    @property
    def lately(self) -> Overrun:
        """The time within and beyond their lifetimes of those that run now, or ended in the newest weeks."""
        return self.ended._replace(overrun_core_us=self.ended.overrun_core_us + self.overrunning_core_us)

    @property
    def allowed_us(self) -> float | None:
        """The core-microseconds that `lately` may overrun; None: any number."""
        share = self.quota.overrun_share
        return None if share is None else allowed_overrun_us(share, self.ended.core_us)

    @property
    def overrun_core_us(self) -> int:
        """The core-microseconds that they ran beyond it."""
        return self.account.overrun_core_us + self.overrunning_core_us


class OwnersMoment:
    """All owners of a cloud as they were at one moment, whatever is decided since. Each is computed when asked for.

    `names` are those of all who have an account or a quota, in order; NOBODY, of the instances of admins, comes first.
    """

    def __init__(self, cloud: Cloud, now_us: int) -> None:
        self.names, self._accounts, self._quotas = [*cloud.owner_names], dict(cloud.owners), dict(cloud.quotas)
        self._ended, self._of_policy = cloud.ended_now(now_us), quota_of_policy(cloud.policy)
        self._over: dict[str, tuple[int, int, int]] = {}

    @classmethod
    async def of(cls, cloud: Cloud, now_us: int) -> OwnersMoment:
        """Return the owners of a cloud's state. In a large cloud, what overruns is counted beside the event loop."""
        moment, count = cls(cloud, now_us), cloud.overrunning_now(now_us)
        moment._over = count() if has_few_rows(cloud) else await beside(count)
        return moment

    def __contains__(self, name: str) -> bool:
        """Return True if there is an owner of this name."""
        return name in self._accounts or name in self._quotas

    @property
    def named(self) -> int:
        """The number of owners with a name."""
        return len(self.names) - (NOBODY in self)

    @property
    def own_quotas(self) -> int:
        """The number of those with quotas of their own."""
        return len(self._quotas)

    @property
    def overrunning(self) -> tuple[int, int]:
        """The number of instances of all owners that overrun, and their cores."""
        return sum(count for count, _, _ in self._over.values()), sum(cores for _, cores, _ in self._over.values())

    def standing(self, name: str) -> OwnerStanding:
        """Return what an owner comes to; of one that is not known, nothing."""
        quota = Quota() if name == NOBODY else self._quotas.get(name, self._of_policy)
        account, over = self._accounts.get(name, OwnerAccount()), self._over.get(name, (0, 0, 0))
        own = name in self._quotas
        return OwnerStanding(name or None, account, *over, self._ended(name), quota, has_own_quota=own)

    def after(self, marker: str | None, limit: int) -> tuple[list[str], str | None]:
        """Return the names that follow a marker, NOBODY's last, and the marker of the next page, if any.

        Raises MarkerInvalid.
        """
        begin = int(NOBODY in self)
        if marker is not None:
            if marker not in self:
                raise MarkerInvalid(f"{marker!r} is not in this list")
            begin = bisect_right(self.names, marker)
        found = self.names[begin : begin + limit + 1]
        if len(found) <= limit and NOBODY in self:
            found.append(NOBODY)
        return found[:limit], found[limit - 1] if len(found) > limit else None

    async def largest(self, most: int) -> list[str]:
        """Return the names of those with most running cores, the largest first. It gives turns to other tasks."""
        return await in_turns(self._ranked(most))

    async def total(self) -> OwnerAccount:
        """Return the sum of all accounts. It gives turns to other tasks."""
        return await in_turns(self._summed())

    def _ranked(self, most: int) -> Generator[None, None, list[str]]:
        found, runs, none = list[str](), list[list[tuple[int, int, str]]](), OwnerAccount()
        for begin in range(0, len(self.names), _AT_ONCE):
            of_names = [(self._accounts.get(name, none), name) for name in self.names[begin : begin + _AT_ONCE]]
            runs.append(sorted((-account.cores, -account.admitted, name) for account, name in of_names))
            yield
        for one in islice(merge(*runs), most):
            found.append(one[-1])
            if not len(found) % _AT_ONCE:
                yield
        return found

    def _summed(self) -> Generator[None, None, OwnerAccount]:
        total, accounts = OwnerAccount(), iter(self._accounts.values())
        while more := [*islice(accounts, _AT_ONCE)]:
            total = OwnerAccount(*map(sum, zip(total, *more, strict=True)))
            yield
        return total


async def owners_now(scheduler: Scheduler, cloud_name: str) -> OwnersMoment:
    """Return the owners of a cloud as they are now."""
    return await OwnersMoment.of(*await scheduler.present(cloud_name))


async def set_quota(
    scheduler: Scheduler, cloud_name: str, owner: str, quota: Quota, at_us: int | None
) -> OwnerStanding:
    """Give an owner a quota of its own in place of the policy's. Nothing happens if it has it.

    Its standing is returned with this quota, also where another request has removed it since.
    """
    check_owner(owner)

    def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
        if cloud.quotas.get(owner) == quota:
            return []
        if owner not in cloud.quotas and len(cloud.quotas) >= MOST_QUOTAS:
            raise TooManyQuotas(f"{MOST_QUOTAS} owners have quotas of their own, as many as may")
        return [QuotaSet(at_us=now_us, owner=owner, **quota._asdict())]

    await scheduler.change(cloud_name, decide, at_us)
    found = (await owners_now(scheduler, cloud_name)).standing(owner)
    return replace(found, quota=quota, has_own_quota=True)


async def remove_quota(scheduler: Scheduler, cloud_name: str, owner: str, at_us: int | None) -> Changed:
    """Let the policy's quota hold for an owner again. Nothing happens if it has none of its own."""
    check_owner(owner)

    def decide(cloud: Cloud, now_us: int) -> Sequence[Event]:
        return [QuotaRemoved(at_us=now_us, owner=owner)] if owner in cloud.quotas else []

    return await scheduler.change(cloud_name, decide, at_us)


def is_owner_name(name: str) -> bool:
    """Return True if an owner can have this name."""
    return _NAME.fullmatch(name) is not None


def check_owner(owner: str) -> None:
    """Raise OwnerNotFound if no owner can have this name."""
    if not is_owner_name(owner):
        raise OwnerNotFound(f"no owner can be called {owner!r}: owners are what names of tokens have up to a dot")
