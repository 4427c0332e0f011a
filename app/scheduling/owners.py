"""Owners: what their spot instances come to, how they overrun, and the quotas that are their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.admission.outcomes import Changed
from app.admission.quota import allowed_overrun_us, quota_of
from app.domain.errors import OwnerNotFound, TooManyQuotas
from app.domain.events import Event, QuotaRemoved, QuotaSet
from app.domain.values import OWNER_PATTERN
from app.engine.cloud import NOBODY, Cloud, Overrun, OwnerAccount, Quota
from app.scheduling.scheduler import Scheduler
from app.scheduling.slots import beside, has_few_rows

MOST_QUOTAS = 1000
"""The number of owners with quotas of their own in a cloud. All of its state is kept in memory."""
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


async def owners_now(scheduler: Scheduler, cloud_name: str) -> list[OwnerStanding]:
    """Return all owners by name, those without one last. In a large cloud they are read beside the event loop."""
    return await owners_of(*await scheduler.present(cloud_name))


async def owners_of(cloud: Cloud, now_us: int) -> list[OwnerStanding]:
    """Return all owners of a cloud's state as of `now_us`, as `owners_now` does."""
    count = cloud.overrunning_now(now_us)
    accounts, quotas, names = dict(cloud.owners), dict(cloud.quotas), {*cloud.owners, *cloud.quotas}
    ended = {name: cloud.ended_lately(name, now_us) for name in names}
    in_force = {name: Quota() if name == NOBODY else quota_of(cloud, name) for name in names}
    over = count() if has_few_rows(cloud) else await beside(count)
    return [
        OwnerStanding(
            name or None,
            accounts.get(name, OwnerAccount()),
            *over.get(name, (0, 0, 0)),
            ended=ended[name],
            quota=in_force[name],
            has_own_quota=name in quotas,
        )
        for name in sorted(names, key=lambda name: (name == NOBODY, name))
    ]


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
    none = OwnerStanding(owner, OwnerAccount(), 0, 0, 0, Overrun(0, 0), quota, has_own_quota=True)
    found = next((one for one in await owners_now(scheduler, cloud_name) if one.name == owner), none)
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
