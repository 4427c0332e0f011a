"""The evidence floor: no promise rests on fewer windows than the policy asks for (docs/forecast.md, *Too few windows*).

A window is one piece of evidence for a lifetime: a stretch of the past as long as the lifetime, apart from all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from app.admission.quote import Quotes
from app.domain.budgets import AdmittedBy
from app.domain.requests import StartRequest
from app.domain.times import MAX_TIME_US
from app.domain.values import Basis, Floor, Policy, Rejection
from app.engine.cloud import Cloud

FiguresJudge = Callable[[StartRequest, Basis], tuple[Basis, Rejection | None]]
"""It returns the verdict of the guarantee on a start with these figures: them, and the reason to reject it, or None."""


def windows_of(policy: Policy, quotes: Quotes, flavor: str, slots: int, lifetime_us: int) -> float | None:
    """Return the windows that the estimate of a lifetime rests on; None if the policy does not ask for any record."""
    return None if policy.min_windows is None else quotes.windows(flavor, slots, lifetime_us)


def floor_above(cloud: Cloud, basis: Basis, quotes: Quotes) -> Floor | None:
    """Return the floor that a decision's windows do not reach; None if they do, or if there is none."""
    needed, windows = cloud.policy.min_windows, basis.windows
    if not needed or windows is None or windows >= needed:
        return None
    return Floor(needed, _enough_us(cloud, quotes, windows, needed))


def is_paid(basis: Basis) -> bool:
    """Return True if a book pays for a risk beyond the promise. Who asks for it may get it, but it is never offered."""
    return basis.book is not None and basis.book.admitted_by is AdmittedBy.PAID


def affordable_above(floor: Floor, request: StartRequest, basis: Basis, quotes: Quotes, judge: FiguresJudge) -> int:
    """Return the longest lifetime that has enough windows and that the guarantee admits too; 0 if there is none.

    Nobody is offered more risk than was promised, whatever the book has left. `judge` says what the guarantee does.
    """

    def judged(lifetime_us: int) -> tuple[Basis, Rejection | None]:
        estimate = quotes.probability(request.flavor, basis.slots, lifetime_us)
        return judge(replace(request, lifetime_us=lifetime_us), replace(basis, estimated_probability=estimate))

    longest_us = quotes.lifetime_of_windows(request.flavor, basis.slots, floor.min_windows)
    within_us = max((basis.quoted_lifetime_us or 0) - 1, 0)
    found, refusal = judged(longest_us)
    if is_paid(found):
        longest_us = min(within_us, longest_us)
        found, refusal = judged(longest_us)
    if refusal is None or not longest_us:
        return 0 if is_paid(found) else longest_us
    account = found.book or found.budget
    return (account.affordable_us or 0) if account is not None else within_us


def _enough_us(cloud: Cloud, quotes: Quotes, windows: float, needed: int) -> int | None:
    """Return the time at which a history that grows on like this one holds as many windows; None if it never does."""
    if windows <= 0:
        return None
    length_us = ceil((quotes.epoch_us - cloud.created_us) * (needed / windows))
    most_us, at_us = cloud.policy.history_window_us, cloud.created_us + length_us
    return None if at_us > MAX_TIME_US or (most_us is not None and length_us > most_us) else at_us
