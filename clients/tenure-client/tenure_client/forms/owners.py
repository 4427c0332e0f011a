"""Answers on owners and their quotas."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from tenure_client.forms.answer import Answer, Link, Seconds


class OwnerQuotaAnswer(Answer, kw_only=True):
    """The quota in force for an owner."""

    cores: Annotated[int | None, Meta(description="The most cores of its running spot instances; null: any number.")]
    share: Annotated[float | None, Meta(description="The share of what a book has left; null: all of it.")]
    overrun_share: Annotated[
        float | None, Meta(description="Core-hours that it may overrun for each within a lifetime; null: any number.")
    ]
    is_own: Annotated[bool, Meta(description="True if it is the owner's own, and not the policy's.")]


class OwnerAnswer(Answer, kw_only=True):
    """The sum of the spot instances of one owner, since the log first told of it, or it was forgotten."""

    name: Annotated[str | None, Meta(description="What the names of its tokens have up to a dot; null: admins.")]
    running: int
    running_cores: int
    admitted: int
    evicted: Annotated[int, Meta(description="Evictions within the declared lifetime, without drills.")]
    overrunning: Annotated[int, Meta(description="How many run beyond their declared lifetime now.")]
    overrunning_cores: int
    overran: Annotated[int, Meta(description="How many ever ran beyond it, those that do so now included.")]
    overran_share: Annotated[float | None, Meta(description="overran / admitted; null: none was admitted.")]
    overrun_core_s: Annotated[Seconds, Meta(description="The core-seconds that they ran beyond it.")]
    overrun_evicted: Annotated[int, Meta(description="Of those that overran, how many were evicted.")]
    lately_overrun_core_s: Annotated[
        Seconds | None,
        Meta(description="The same of those that run now, or ended in this week or the three before; null: of admins."),
    ]
    lately_allowed_core_s: Annotated[
        float | None, Meta(description="With more of these its spot starts are rejected; null: any number.")
    ]
    quota: OwnerQuotaAnswer


class OwnersAnswer(Answer, kw_only=True):
    owners: Annotated[list[OwnerAnswer], Meta(description="By name; what admins started stands last.")]
    links: list[Link]
