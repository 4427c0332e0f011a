"""The policy of a new cloud, where its maker names nothing else.

The defaults of `Policy` say what a log means that does not hold a field, so they never change. What new clouds get is
said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from app.domain.events.formats import LOG_FORMAT, since_of
from app.domain.times import DAY_US, SECOND_US
from app.domain.values import Forecast, Guarantee, Policy, value_since

FORECAST = Forecast.CALIBRATED
"""The forecast of a new cloud."""
GUARANTEES = {Forecast.CALIBRATED: Guarantee.STRATIFIED, Forecast.REPLAY: Guarantee.PER_INSTANCE}
"""The guarantee of a new cloud, by its forecast. The second pair is the published method."""
_BOOKED: dict[str, Any] = {"min_windows": 0, "gives_back": True}
"""The part of what decisions rest on that every new cloud gets, those of evaluations and imports too."""
_SINCE = {one.name: since_of(one) for one in fields(Policy)}

PROTECTED_SINCE = 5
"""The log format that can hold the fields below."""
PROTECTION: dict[str, Any] = {
    "shortest_lifetime_us": SECOND_US,
    "longest_lifetime_us": 365 * DAY_US,
    "displaces_overrunning": True,
    "overrun_share": 0.1,
}
"""The protection of new clouds against callers that would take what others paid for."""
HIGHEST_PROBABILITY = 0.2
"""Under a laxer promise a start is admitted nearly always, and keeps its room from those who come later."""
_UNPROTECTED: dict[str, Any] = {
    one.name: one.default for one in fields(Policy) if one.name in {*PROTECTION, "highest_probability"}
}


def new_policy(named: Mapping[str, Any], log_format: int = LOG_FORMAT) -> Policy:
    """Return the policy of a new cloud: the fields that are named, and for the others what new clouds get.

    While a log format is in force that cannot hold this, a cloud that names no forecast gets the published method.
    """
    can_hold = log_format >= value_since(GUARANTEES[FORECAST])
    forecast = named.get("forecast", FORECAST if can_hold else Forecast.REPLAY)
    method: dict[str, Any] = {"forecast": forecast, "guarantee": GUARANTEES[forecast]}
    method |= {name: value for name, value in _BOOKED.items() if log_format >= _SINCE[name]}
    return Policy(**method | dict(named))


def protected_policy(named: Mapping[str, Any], log_format: int = LOG_FORMAT) -> Policy:
    """Return the policy of a new cloud whose callers are not all its own: with bounds, and rules for overrunning.

    A probability that is named may be above what others may ask for. Evaluations have none of this, because they repeat
    what was; nor has a cloud while a log format is in force that cannot hold it.
    """
    policy = new_policy(named, log_format)
    return policy if log_format < PROTECTED_SINCE else replace(protected(policy), **named)


def protected(policy: Policy) -> Policy:
    """Return the policy with this protection."""
    highest = max(HIGHEST_PROBABILITY, policy.eviction_probability)
    return replace(policy, **PROTECTION, highest_probability=highest)


def unprotected(policy: Policy) -> Policy:
    """Return the policy without it. An import decides the past so, because it repeats what was."""
    return replace(policy, **_UNPROTECTED)
