"""The evidence floor: no promise rests on fewer windows than the policy asks for (docs/forecast.md, *Too few windows*).

A window is one piece of evidence for a lifetime: a stretch of the past as long as the lifetime, apart from all others.
"""

from __future__ import annotations

from math import ceil

from app.admission.quote import Quotes
from app.domain.times import MAX_TIME_US
from app.domain.values import Basis, Floor, Policy
from app.engine.cloud import Cloud


def windows_of(policy: Policy, quotes: Quotes, flavor: str, slots: int, lifetime_us: int) -> float | None:
    """Return the windows that the estimate of a lifetime rests on; None if the policy does not ask for any record."""
    return None if policy.min_windows is None else quotes.windows(flavor, slots, lifetime_us)


def floor_above(cloud: Cloud, basis: Basis, quotes: Quotes) -> Floor | None:
    """Return the floor that a decision's windows do not reach; None if they do, or if there is none."""
    needed, windows = cloud.policy.min_windows, basis.windows
    if not needed or windows is None or windows >= needed:
        return None
    return Floor(needed, _enough_us(cloud, quotes, windows, needed))


def _enough_us(cloud: Cloud, quotes: Quotes, windows: float, needed: int) -> int | None:
    """Return the time at which a history that grows on like this one holds as many windows; None if it never does."""
    if windows <= 0:
        return None
    length_us = ceil((quotes.epoch_us - cloud.created_us) * (needed / windows))
    most_us, at_us = cloud.policy.history_window_us, cloud.created_us + length_us
    return None if at_us > MAX_TIME_US or (most_us is not None and length_us > most_us) else at_us
